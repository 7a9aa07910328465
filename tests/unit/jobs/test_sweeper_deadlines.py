"""A limit that a job had overstepped when it was read is judged anew for what the job has become by the time of the write."""

import random
from datetime import timedelta

import pytest

from shared.ids import RandomIds
from shared.jobs.changes import Changes
from shared.jobs.model import Timeouts
from shared.jobs.ports import LostError
from shared.jobs.regions import RegionStatus
from shared.jobs.states import State
from shared.jobs.sweeping import Sweeper
from tests.unit.jobs.builders import NOW, pending, queued, running

LIMIT = Timeouts(queue_seconds=20)
SHORT = Timeouts(execution_seconds=20)


class Clock:
    def now(self):
        return NOW + timedelta(seconds=30)


class ChangedMeanwhile:
    """A store whose job is another by the time of the first write."""

    def __init__(self, *, read, now):
        self.read = read
        self.head = now

    async def due(self, region, limit):
        return [(NOW, self.read.id)]

    async def heads(self, job_ids):
        return {self.read.id: self.read}

    async def write(self, change):
        if change.before is not self.head:
            raise LostError(self.head)
        self.head = change.after
        return self.head


class Silence:
    async def ring(self, region, job_id, *, kind="ready", delay=0.0, group=None):
        return None

    async def price(self, region, instance_type):
        return None

    async def status(self, region):
        return RegionStatus(region=region)


@pytest.mark.parametrize(
    ("read", "now"),
    [
        (running(timeouts=SHORT), queued(timeouts=SHORT, execution=2, revision=6, attempts=1)),
        (queued(timeouts=LIMIT), pending(timeouts=LIMIT)),
    ],
    ids=["the execution has ended and the next one waits", "it has left the queue"],
)
async def test_a_job_that_is_past_its_limit_no_more_is_left_alone(read, now):
    store, clock = ChangedMeanwhile(read=read, now=now), Clock()
    changes = Changes(store=store, doorbell=Silence(), clock=clock, ids=RandomIds(), chance=random.Random(1))

    await Sweeper(store=store, changes=changes, doorbell=Silence(), prices=Silence(), draining=Silence(), clock=clock).sweep("us-east-1")

    assert store.head is now


async def test_a_job_that_is_still_past_its_limit_is_stopped():
    read = running(timeouts=SHORT)
    store, clock = ChangedMeanwhile(read=read, now=running(timeouts=SHORT, labels={"changed": "meanwhile"})), Clock()
    changes = Changes(store=store, doorbell=Silence(), clock=clock, ids=RandomIds(), chance=random.Random(1))

    await Sweeper(store=store, changes=changes, doorbell=Silence(), prices=Silence(), draining=Silence(), clock=clock).sweep("us-east-1")

    assert (store.head.state, store.head.stop is not None) == (State.RUNNING, True)

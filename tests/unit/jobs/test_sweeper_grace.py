"""Overdue claims lapse, however the sweeps are spaced; after an absence they are left alone for one lease."""

import random
from datetime import datetime, timedelta

import pytest

from shared.ids import RandomIds
from shared.jobs.changes import Changes
from shared.jobs.regions import RegionStatus
from shared.jobs.states import State
from shared.jobs.sweeping import Sweeper
from tests.unit.jobs.builders import NOW, claimed

LEASE = timedelta(seconds=60)


class Clock:
    """Set by the test."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time


class OneJob:
    """A store with one job in it, due at its claim's expiry."""

    def __init__(self) -> None:
        self.head = claimed()

    async def due(self, region, limit):
        return [(self.head.claim.expires_at, self.head.id)] if self.head.claim else []

    async def heads(self, job_ids):
        return {self.head.id: self.head}

    async def write(self, change):
        self.head = change.after
        return self.head


class Silence:
    """No bell, no price, nothing drained."""

    async def ring(self, region, job_id, *, kind="ready", delay=0.0, group=None):
        return None

    async def price(self, region, instance_type):
        return None

    async def status(self, region):
        return RegionStatus(region=region)


def sweeper_of(store, clock, *, idle):
    changes = Changes(store=store, doorbell=Silence(), clock=clock, ids=RandomIds(), chance=random.Random(1))
    return Sweeper(
        store=store, changes=changes, doorbell=Silence(), prices=Silence(), draining=Silence(), clock=clock, lease=LEASE, idle=idle
    )


@pytest.mark.parametrize("idle", [timedelta(seconds=5), LEASE, LEASE * 5])
async def test_a_claim_lapses_whatever_the_pause_between_sweeps(idle):
    store, clock = OneJob(), Clock()
    sweeper = sweeper_of(store, clock, idle=idle)

    for _ in range(70):
        await sweeper.sweep("us-east-1")
        clock.time += idle + timedelta(seconds=0.1)

    assert store.head.state is State.QUEUED


async def test_the_end_of_a_grace_is_a_time_to_look_again():
    clock = Clock()
    sweeper = sweeper_of(OneJob(), clock, idle=LEASE * 5)
    clock.time += LEASE * 2

    again = await sweeper.sweep("us-east-1")

    assert again == clock.time + LEASE


async def test_a_sweeper_that_was_away_leaves_claims_alone_for_a_lease():
    store, clock = OneJob(), Clock()
    sweeper = sweeper_of(store, clock, idle=LEASE)
    await sweeper.sweep("us-east-1")
    clock.time += LEASE * 10

    await sweeper.sweep("us-east-1")
    before = store.head.state
    clock.time += LEASE
    await sweeper.sweep("us-east-1")

    assert (before, store.head.state) == (State.CLAIMED, State.QUEUED)

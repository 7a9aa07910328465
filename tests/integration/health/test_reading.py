"""The fleet's health, read from the table, the queues and the bucket of a real fleet on the emulator."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import UnavailableError
from shared.health.beats import Beat
from shared.health.model import Backlog, LoopState, WebhookHealth
from shared.health.reading import KeptHealth
from shared.health.sources import health_reader
from shared.jobs.model import Claim, Head
from shared.jobs.regions import RegionControl
from shared.metrics.snapshot import Snapshot
from shared.metrics.snapshots import Snapshots
from shared.queues.queue import Queue
from shared.settings import dead_letter_queue
from shared.store import backlogs as backlogs_module
from shared.store.beats import Beats
from shared.store.objects import S3Objects
from shared.store.regions import Regions
from tests.integration.region import REGION, running_region
from workers.beating import beating
from workers.loops import Passes

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


class At:
    """A clock that is moved by hand."""

    def __init__(self, moment: datetime) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment


class Counting:
    """A client that counts what is asked of it."""

    def __init__(self, client) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name):
        self.calls[name] += 1
        return getattr(self._client, name)


@pytest.fixture
async def region(fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path) as found:
        yield found


def reader(region, clock=None, *, aws=None):
    return health_reader(region.settings, aws or region.aws, clock or region.core.clock)


async def of_region(health_of):
    (found,) = (await health_of.read()).regions
    return found


async def test_an_idle_fleet_costs_one_request_a_snapshot(region):
    counted = Counting(region.aws.dynamodb)
    clock = At(datetime.now(UTC))
    found = reader(region, clock, aws=replace(region.aws, dynamodb=counted))
    health = await found.read()
    assert health.idle
    assert health.unread == {f"the cluster of {REGION}": "no observer has ever told of it"}
    assert health.regions[0].ready == health.regions[0].overdue == Backlog()
    assert [queue.dead_letters for queue in health.queues] == [0] * len(region.settings.queues())
    counted.calls.clear()
    clock.moment += timedelta(minutes=5)
    await found.read()
    assert counted.calls == {"batch_get_item": 1}
    clock.moment += timedelta(minutes=15)
    await found.read()
    assert counted.calls == {"batch_get_item": 2, "query": 1}  # the loops, each quarter of an hour


async def test_what_is_ready_claimed_and_overdue(region):
    for _ in range(3):
        await region.submit()
    entries = await region.core.store.ready(REGION, 10)
    now = datetime.now(UTC)
    claim = Claim(owner="w", nonce="n" * 16, claimed_at=now - timedelta(seconds=40), expires_at=now - timedelta(seconds=10))
    assert await region.core.store.claim(entries[0], claim) is not None
    found = await of_region(reader(region, At(now + timedelta(seconds=5))))
    assert (found.jobs["queued"], found.jobs["claimed"]) == (2, 1)
    assert found.ready.count == 2
    assert 5 <= found.ready.oldest_seconds < 60
    assert (found.claims.count, found.claims.oldest_seconds) == (1, pytest.approx(45))
    assert (found.overdue.count, found.overdue.oldest_seconds) == (1, pytest.approx(15))


async def test_a_list_that_is_longer_than_what_is_read(region, monkeypatch):
    monkeypatch.setattr(backlogs_module, "MOST", 2)
    await asyncio.gather(*(region.submit() for _ in range(5)))
    found = await of_region(reader(region))
    assert (found.ready.count, found.ready.exact) == (5, False)


async def test_how_long_jobs_waited_for_their_commit(region):
    assert (await of_region(reader(region))).dispatched is None
    heads: list[Head] = [await region.submit() for _ in range(3)]
    await region.dispatcher()
    for head in heads:
        async with asyncio.timeout(20):
            while (await region.head(head.id)).committed_at is None:
                await asyncio.sleep(0.05)
    waits = sorted((found.committed_at - found.submitted_at).total_seconds() for found in [await region.head(head.id) for head in heads])
    found = (await of_region(reader(region))).dispatched
    assert (found.jobs, found.median_seconds, found.most_seconds) == (3, pytest.approx(waits[1]), pytest.approx(waits[2]))
    later = await of_region(reader(region, At(datetime.now(UTC) + timedelta(hours=2))))
    assert later.dispatched is None


async def test_the_sample_of_jobs_is_read_again_only_when_something_moved(region):
    counted = Counting(region.aws.dynamodb)
    await region.submit()
    found = reader(region, aws=replace(region.aws, dynamodb=counted))
    await found.read()
    counted.calls.clear()
    await found.read()
    assert counted.calls == {"batch_get_item": 1, "query": 3}  # ready, claimed, overdue


async def test_dead_letters_scrapes_and_loops(region):
    dead = await Queue.open(region.aws.sqs, dead_letter_queue(region.settings.submissions_queue))
    await dead.send("nonsense")
    now = datetime.now(UTC)
    objects = S3Objects(region.aws.s3, region.settings.bucket)
    await Snapshots(objects).put(Snapshot(region=REGION, at=now - timedelta(seconds=25), seconds=1.0))
    passes = Passes(At(now - timedelta(seconds=5)))
    beats = Beats(region.core.table)
    async with beating(beats, passes, worker="sweeper", clock=At(now), look_seconds=0.01):
        passes.begin()
        passes.succeed()
        passes.fail(RuntimeError("no table"))
        async with asyncio.timeout(10):
            while not [beat for beat in await beats.latest() if beat.error]:
                await asyncio.sleep(0.01)
        health = await reader(region, At(now)).read()
        assert {one.queue: one.dead_letters for one in health.queues}[region.settings.submissions_queue] == 1
        assert health.regions[0].scraped_seconds == pytest.approx(25)
        (loop,) = health.loops
        assert (loop.worker, loop.region, loop.state, loop.error, loop.passed_seconds) == (
            "sweeper",
            None,
            LoopState.FAILING,
            "no table",
            5,
        )
    assert await beats.latest() == []  # it said that it ends


async def test_a_loop_that_is_killed_falls_silent(region):
    now = datetime.now(UTC)
    await Beats(region.core.table).put(Beat(worker="observer", region=REGION, owner="host/1", at=now - timedelta(hours=2)))
    (loop,) = (await reader(region).read()).loops
    assert loop.state is LoopState.SILENT


class Away:
    """A client of which no call is answered."""

    def __getattr__(self, name):
        async def call(**_):
            raise OSError("away")

        return call


async def test_a_part_that_does_not_answer_is_named(region):
    health = await reader(region, aws=replace(region.aws, sqs=Away(), s3=Away())).read()
    assert set(health.unread) == {"dead letters", "scrapes", f"the cluster of {REGION}"}
    assert health.webhooks == WebhookHealth()
    with pytest.raises(UnavailableError):
        await reader(region, aws=replace(region.aws, dynamodb=Away())).read()


async def test_an_open_region_of_which_nobody_ever_told_is_unread(region):
    told = {f"the cluster of {REGION}": "no observer has ever told of it", f"the GPUs of {REGION}": "no scrape has ever read them"}
    asks = health_reader(region.settings, region.aws, region.core.clock, scraped=True)
    assert (await asks.read()).unread == told
    # Where the times of scrapes can't be read, that is all that is known of them.
    away = health_reader(region.settings, replace(region.aws, s3=Away()), region.core.clock, scraped=True)
    assert set((await away.read()).unread) == {"scrapes", f"the cluster of {REGION}"}

    control = RegionControl(statuses=Regions(region.core.table), regions=[REGION], doorbell=region.core.doorbell, clock=region.core.clock)
    await control.drain(REGION, by="ada", reason="new", move=True, interrupt=False)
    assert (await asks.read()).unread == {}
    await control.resume(REGION, by="ada", reason=None)
    assert (await asks.read()).unread == told

    now = datetime.now(UTC)
    await Snapshots(S3Objects(region.aws.s3, region.settings.bucket)).put(Snapshot(region=REGION, at=now, seconds=1.0))
    async with asyncio.timeout(20):
        await region.observer()
        while (await asks.read()).unread:
            await asyncio.sleep(0.05)


async def test_a_snapshot_is_kept_for_those_who_ask_at_once(region):
    counted = Counting(region.aws.dynamodb)
    clock = At(datetime.now(UTC))
    kept = KeptHealth(reader(region, clock, aws=replace(region.aws, dynamodb=counted)), clock)
    found = await asyncio.gather(*(kept.get() for _ in range(20)))
    assert len({id(one) for one in found}) == 1
    assert counted.calls["batch_get_item"] == 1
    clock.moment += timedelta(seconds=299)
    assert await kept.get() is found[0]
    assert await kept.get(idle_seconds=5) is not found[0]

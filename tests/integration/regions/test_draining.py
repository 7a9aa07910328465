"""Regions that are drained and resumed while jobs are queued, claimed and running there."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from shared.jobs.change import Moment
from shared.jobs.model import Claim, EventType, RetryPolicy, Timeouts
from shared.jobs.ports import LostError
from shared.jobs.regions import ClaimGate
from shared.jobs.states import State
from shared.jobs.transitions import moved
from shared.store.counters import Counters
from shared.store.regions import Regions
from tests.integration.region import job
from tests.integration.regions.conftest import EAST, WEST


async def drain(control, region, **options):
    return await control.drain(region, **({"by": "ada", "reason": "new nodes", "move": True, "interrupt": False} | options))


async def worked(*regions):
    """Dispatcher, observer and sweeper in each."""
    for region in regions:
        await region.dispatcher()
        await region.observer()
        await region.sweeper()


def kinds(events):
    return [event.type for event in events]


async def test_what_may_run_anywhere_is_moved_and_runs_once_elsewhere(pair, control):
    east, west = pair
    west_first = await drain(control, WEST)
    heads = [await east.submit(region="any", manifest=job(f"job-{number}")) for number in range(30)]
    assert {head.region for head in heads} == {EAST}
    assert west_first.drained

    await drain(control, EAST)
    await control.resume(WEST, by="ada", reason=None)
    await worked(*pair)
    done = await asyncio.gather(*(east.until(head.id, State.SUCCEEDED) for head in heads))

    assert {(head.region, head.execution) for head in done} == {(WEST, 1)}
    assert all(len(west.starts(head.id)) == 1 and not east.starts(head.id) for head in heads)
    events = await east.events(heads[0].id)
    assert kinds(events)[:3] == [EventType.SUBMITTED, EventType.MOVED, EventType.CLAIMED]
    assert (events[1].by, events[1].message) == ("ada", f"from {EAST}, which is drained: new nodes, to {WEST}")
    assert await counted(east) == {EAST: 0, WEST: 0}


async def counted(region):
    """Queued jobs by region, as the counters have them."""
    counts = await Counters(region.core.table, region.core.layout).by_region([EAST, WEST])
    return {name: states[State.QUEUED] for name, states in counts.items()}


async def test_a_job_that_was_submitted_to_a_drained_region_waits_there_until_it_is_resumed(pair, control):
    east, _ = pair
    await drain(control, EAST)
    await worked(*pair)
    named, kept = await east.submit(region=EAST), await east.submit(region="any")
    assert kept.region == WEST

    await east.until(kept.id, State.SUCCEEDED)
    swept = await held(east, named.id, rings=1)
    assert (swept.state, swept.region, east.starts(named.id)) == (State.QUEUED, EAST, [])

    await control.resume(EAST, by="ada", reason="done")
    done = await east.until(named.id, State.SUCCEEDED, seconds=5)
    assert len(east.starts(named.id)) == 1
    assert done.fence == 1


async def held(region, job_id, *, rings):
    """Wait until the sweeper has looked at a waiting job so often."""
    async with asyncio.timeout(20):
        while (head := await region.head(job_id)).rings < rings:
            await asyncio.sleep(0.05)
    return head


async def test_a_resumption_whose_bell_is_lost_is_rung_again(pair, control):
    east, _ = pair
    await drain(control, EAST, move=False)
    await east.dispatcher()
    await east.observer()
    head = await east.submit()
    statuses = Regions(east.core.table)
    status = await statuses.status(EAST)

    await east.sweeper()
    await held(east, head.id, rings=1)
    after = status.model_copy(update={"revision": status.revision + 1, "drained": False, "due": east.core.clock.now()})
    await statuses.write(status, after)  # as a resumption whose process died before it rang

    await east.until(head.id, State.SUCCEEDED)
    await settled(east, EAST)


async def test_jobs_are_kept_where_the_operator_says_so(pair, control):
    east, west = pair
    await drain(control, WEST)
    head = await east.submit(region="any")
    await drain(control, EAST, move=False)
    await control.resume(WEST, by="ada", reason=None)
    await worked(*pair)

    swept = await held(east, head.id, rings=1)
    assert (swept.region, swept.state) == (EAST, State.QUEUED)

    await drain(control, EAST, move=True)
    await east.until(head.id, State.SUCCEEDED)
    assert len(west.starts(head.id)) == 1


async def test_what_waits_for_another_try_is_moved_with_its_wait(pair, control):
    east, west = pair
    await drain(control, WEST)
    head = await east.submit(region="any", manifest=job(exit_code="1,0"), retry=retry(backoff_seconds=3))
    await worked(*pair)
    async with asyncio.timeout(20):
        while (waiting := await east.head(head.id)).wait is None:
            await asyncio.sleep(0.05)

    await control.resume(WEST, by="ada", reason=None)
    await drain(control, EAST)
    done = await east.until(head.id, State.SUCCEEDED)

    assert (done.region, done.execution, done.attempts) == (WEST, 3, 2)  # each cluster fails its first start
    assert (len(east.starts(head.id)), len(west.starts(head.id))) == (1, 2)
    first = next(event for event in await east.events(head.id) if event.type is EventType.CLAIMED and event.execution == 2)
    assert first.at >= waiting.wait.until


def retry(**fields):
    return RetryPolicy(max_attempts=3, **fields)


async def test_what_runs_goes_on_or_is_interrupted_and_starts_elsewhere(pair, control):
    east, west = pair
    await drain(control, WEST)
    heads = [await east.submit(region="any", manifest=job(f"job-{number}", duration=3600)) for number in range(3)]
    named = await east.submit(manifest=job("named", duration=3600))
    await worked(*pair)
    await asyncio.gather(*(east.until(head.id, State.RUNNING) for head in [*heads, named]))
    await control.resume(WEST, by="ada", reason=None)

    await drain(control, EAST)
    await settled(east, EAST)
    assert {(await east.head(head.id)).state for head in heads} == {State.RUNNING}

    await drain(control, EAST, interrupt=True)
    for head in heads:
        async with asyncio.timeout(30):
            while (found := await east.head(head.id)).region != WEST or found.state is not State.RUNNING:
                await asyncio.sleep(0.05)
        assert (found.execution, found.interruptions, found.attempts) == (2, 1, 0)
        assert (len(east.starts(head.id)), len(west.starts(head.id))) == (1, 1)
    left = await east.until(named.id, State.QUEUED)
    assert (left.region, left.execution, left.interruptions) == (EAST, 2, 1)
    assert {item["spec"]["suspend"] for item in await east.objects()} <= {True}


async def settled(region, name):
    """Wait until the sweeper has gone through a drained region."""
    statuses = Regions(region.core.table)
    async with asyncio.timeout(20):
        while (await statuses.status(name)).due is not None:
            await asyncio.sleep(0.05)


async def test_a_limit_of_time_ends_a_job_that_waits_in_a_drained_region(pair, control):
    east, _ = pair
    await drain(control, EAST)
    await worked(east)
    head = await east.submit(timeouts=Timeouts(queue_seconds=2))

    failed = await east.until(head.id, State.FAILED)

    assert failed.reason == "queue timeout"
    assert await east.objects() == []


@pytest.mark.parametrize("seed", range(4))
async def test_of_a_claim_and_a_move_at_the_same_time_one_is_refused(pair, seed):
    """What was read in the old region is worth nothing any more: neither to claim the job, nor to write what was made of it."""
    east, _ = pair
    core, chance = east.core, random.Random(seed)
    head = await east.submit(region="any")
    (entry,) = await core.store.ready(head.region, 10)
    now = core.clock.now()
    claim = Claim(owner="d1", nonce="1" * 16, claimed_at=now, expires_at=now + timedelta(seconds=60))
    other = WEST if head.region == EAST else EAST

    async def move():
        await asyncio.sleep(chance.random() * 0.01)
        try:
            return await core.store.write(moved(head, other, "a test", Moment(now=now, stamp="2" * 16), by="ada"))
        except LostError:
            return None

    async def take():
        await asyncio.sleep(chance.random() * 0.01)
        return await core.store.claim(entry, claim)

    gone, claimed = await asyncio.gather(move(), take())

    assert (gone is None) != (claimed is None)
    standing = await east.head(head.id)
    assert (standing.region, standing.state) == ((other, State.QUEUED) if gone else (head.region, State.CLAIMED))
    if gone:
        assert await core.store.claim(entry, claim) is None


async def test_a_bell_from_before_the_move_stops_nothing(pair, control):
    """The old region's cluster has nothing of the job: that is no sign that its execution, which runs elsewhere, has been stopped."""
    east, west = pair
    await drain(control, WEST)
    head = await east.submit(region="any", manifest=job(duration=3600))
    await drain(control, EAST)
    await control.resume(WEST, by="ada", reason=None)
    await worked(west)
    await east.sweeper()
    await east.until(head.id, State.RUNNING)
    west.fault(method="DELETE", path="/jobs/", action="answer", status=503, times=100_000)
    await east.cancel(head.id)

    await east.dispatcher()
    await east.core.doorbell.ring(EAST, head.id, kind="stop")
    await drained_queue(east, EAST)
    assert (await east.head(head.id)).state is State.RUNNING

    west.server.faults.clear()
    await east.until(head.id, State.CANCELLED)


async def drained_queue(region, name):
    """Wait until no bell is left in a region's queue, visible or not."""
    url = (await region.aws.sqs.get_queue_url(QueueName=region.settings.dispatch_queue(name)))["QueueUrl"]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    async with asyncio.timeout(20):
        while any(
            int(value) for value in (await region.aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names))["Attributes"].values()
        ):
            await asyncio.sleep(0.05)


async def test_a_gate_believes_open_for_seconds_and_drained_never(pair, control):
    east, _ = pair
    gate = ClaimGate(Regions(east.core.table), EAST, open_seconds=0.5)
    assert await gate.is_open()
    await drain(control, EAST)
    assert await gate.is_open()
    async with asyncio.timeout(5):
        while await gate.is_open():
            await asyncio.sleep(0.05)
    await control.resume(EAST, by="ada", reason=None)
    assert await gate.is_open()


async def test_a_bell_from_before_the_move_wakes_nothing(pair, control):
    """Only a worker of the new region can tell its dispatchers that the job is ready."""
    east, west = pair
    await drain(control, WEST)
    head = await east.submit(region="any", manifest=job(exit_code="1,0"), retry=retry(backoff_seconds=2))
    await worked(*pair)
    async with asyncio.timeout(20):
        while (waiting := await east.head(head.id)).wait is None:
            await asyncio.sleep(0.05)
    for worker in west.workers:
        await worker.stop()
    core = east.core
    await core.store.write(moved(waiting, WEST, "a test", Moment(now=core.clock.now(), stamp="3" * 16), by="ada"))

    async with asyncio.timeout(20):
        while core.clock.now() < waiting.wait.until + timedelta(seconds=1):
            await asyncio.sleep(0.05)
    await east.core.doorbell.ring(EAST, head.id, kind="wake")
    await drained_queue(east, EAST)

    standing = await east.head(head.id)
    assert (standing.state, standing.region, standing.wait) == (State.QUEUED, WEST, waiting.wait)

"""The table is restored to an earlier point in time, while clusters have gone on: no execution runs a second time.

Restoring is replacing the content of the table by an earlier export of it.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

import pytest

from shared.errors import InvalidError
from shared.health.beats import Beat
from shared.jobs import transitions
from shared.jobs.model import StopIntent
from shared.jobs.reconciliation import REMOVED_AFTER, Found
from shared.jobs.states import State
from shared.store.beats import Beats
from shared.store.regions import Regions
from tests.integration.region import job
from tests.integration.regions.conftest import EAST, WEST
from tests.integration.regions.test_draining import drain, worked
from workers.reconciling import reconcile

pytestmark = pytest.mark.timeout(180)


async def export(region):
    """The whole table, as a restore would bring it back."""
    found, start = [], {}
    while True:
        page = await region.aws.dynamodb.scan(TableName=region.settings.table, **start)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            return found
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


async def restore(region, items):
    """Put the table back."""
    table, dynamodb = region.settings.table, region.aws.dynamodb
    for item in await export(region):
        await dynamodb.delete_item(TableName=table, Key={"pk": item["pk"], "sk": item["sk"]})
    for item in items:
        await dynamodb.put_item(TableName=table, Item=item)


async def interrupt(region, head):
    """As if its machine were taken away."""
    return await region.core.changes.make(
        head, lambda now, moment: transitions.stop_requested(now, StopIntent.INTERRUPTION, "a test", "ada", moment)
    )


async def stopped(*regions):
    for region in regions:
        for worker in region.workers:
            worker.asked.set()
        await asyncio.gather(*(worker.kill() for worker in region.workers))
        region.workers.clear()


async def until_execution(region, job_id, number):
    async with asyncio.timeout(30):
        while (head := await region.head(job_id)).execution != number or head.state is not State.RUNNING:
            await asyncio.sleep(0.05)


async def history(pair, control, tmp_path):
    """What happens before and after the point in time; the names of the jobs, their heads, and the export."""
    east, west = pair
    await drain(control, WEST)
    await worked(*pair)
    interrupted = await east.submit(manifest=job("interrupted", duration=3600))
    await east.until(interrupted.id, State.RUNNING)
    await stopped(*pair)
    jobs = {
        "interrupted": interrupted,
        "started": await east.submit(manifest=job("started", duration=3600)),
        "succeeded": await east.submit(manifest=job("succeeded")),
        "cancelled": await east.submit(manifest=job("cancelled", duration=3600)),
        "moved": await east.submit(manifest=job("moved", duration=3600), region="any", priority=0),
        "waiting": await east.submit(manifest=job("waiting"), max_spot_price=Decimal(1), spot_instance_type="g5.xlarge"),
    }
    table, at = await export(east), east.core.clock.now()

    await drain(control, EAST)
    await control.resume(WEST, by="ada", reason=None)
    await worked(west)
    await east.sweeper()
    await west.until(jobs["moved"].id, State.RUNNING)
    await control.resume(EAST, by="ada", reason=None)
    await worked(east)
    for name in ("started", "cancelled"):
        await east.until(jobs[name].id, State.RUNNING)
    await east.until(jobs["succeeded"].id, State.SUCCEEDED)
    await interrupt(east, await east.head(interrupted.id))
    await until_execution(east, interrupted.id, 2)
    await east.cancel(jobs["cancelled"].id)
    await east.until(jobs["cancelled"].id, State.CANCELLED)
    jobs["later"] = await east.submit(manifest=job("later", duration=3600))
    await east.until(jobs["later"].id, State.RUNNING)
    await stopped(*pair)
    return jobs, table, at


async def test_no_execution_runs_a_second_time_after_a_restore(pair, control, tmp_path):
    east, _ = pair
    jobs, table, at = await history(pair, control, tmp_path)
    await restore(east, table)
    settings = east.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"})

    looked = await reconcile(settings, east.aws, restored_to=at, apply=False)
    told = {next(name for name, head in jobs.items() if head.id == one.finding.job_id): one.finding.found for one in looked.settled}
    assert told == {
        "interrupted": Found.TAKE_UP,
        "started": Found.TAKE_UP,
        "succeeded": Found.TAKE_UP,
        "moved": Found.TAKE_UP,
        "cancelled": Found.RAN,
        "later": Found.FORGOTTEN,
    }
    assert (await east.head(jobs["started"].id)).state is State.QUEUED

    written = await reconcile(settings, east.aws, restored_to=at, apply=True)
    assert {one.written for one in written.settled} == {True, None}
    again = await reconcile(settings, east.aws, restored_to=at, apply=True)
    assert [one.finding.found for one in again.settled] == [Found.FORGOTTEN]

    await worked(*pair)
    await east.until(jobs["succeeded"].id, State.SUCCEEDED)
    for name, region, execution in (("started", EAST, 1), ("interrupted", EAST, 2), ("moved", WEST, 1)):
        head = await east.until(jobs[name].id, State.RUNNING)
        assert (head.region, head.execution) == (region, execution)
    lost = await east.head(jobs["cancelled"].id)
    assert (lost.state, lost.reason) == (State.FAILED, "restored")
    await control.resume(EAST, by="ada", reason=None)
    await control.resume(WEST, by="ada", reason=None)
    after = await east.submit(manifest=job("after"))
    await east.until(after.id, State.SUCCEEDED)

    starts = {name: [len(region.starts(head.id)) for region in pair] for name, head in jobs.items()}
    assert starts == {
        "interrupted": [2, 0],
        "started": [1, 0],
        "succeeded": [1, 0],
        "moved": [0, 1],
        "cancelled": [1, 0],
        "waiting": [0, 0],
        "later": [1, 0],
    }
    assert (await east.head(jobs["waiting"].id)).state is State.QUEUED
    numbers = [event.number for event in await east.events(jobs["interrupted"].id)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_of_a_time_long_ago_nothing_that_left_no_trace_is_run(pair, control, tmp_path):
    """An object may have been removed since, an hour after its end at the earliest, and its logs may not have been kept."""
    east, _ = pair
    head = await east.submit()
    settings = east.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"})
    now = east.core.clock.now()

    lately = await reconcile(settings, east.aws, restored_to=now - REMOVED_AFTER + timedelta(minutes=5), apply=True)
    assert lately.settled == []
    long_ago = await reconcile(settings, east.aws, restored_to=now - REMOVED_AFTER, apply=True)

    assert [(one.finding.job_id, one.finding.found) for one in long_ago.settled] == [(head.id, Found.UNTRACED)]
    failed = await east.head(head.id)
    assert (failed.state, failed.reason) == (State.FAILED, "restored")


async def test_a_cluster_that_does_not_answer_lets_nothing_be_written(pair, tmp_path):
    from shared.errors import UnavailableError

    east, west = pair
    head = await east.submit()
    settings = east.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"})
    west.fault(method="GET", path="/jobs", action="answer", status=503, times=100_000)

    with pytest.raises(UnavailableError):
        await reconcile(settings, east.aws, restored_to=east.core.clock.now() - REMOVED_AFTER, apply=True)

    assert await east.head(head.id) == head
    with suppress(KeyError):
        west.server.faults.clear()


async def test_a_region_that_the_table_knows_is_not_left_out_unasked(pair, control, tmp_path):
    """By an operator's decision, an observer's report, or a worker's beat where the region is none of AWS's."""
    east, _ = pair
    everything = east.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"})
    part = everything.model_copy(update={"regions": (EAST,)})
    now = east.core.clock.now()

    async def looked(settings, **options):
        return await reconcile(settings, east.aws, restored_to=now, apply=True, **options)

    assert [one.region for one in (await looked(part)).looked] == [EAST]
    await control.resume(EAST, by="ada", reason=None)
    await drain(control, WEST)
    beats = Beats(east.core.table)
    await beats.put(Beat(worker="observer", region="mars-1", owner="mars-1/host/1", at=now, ended=True))
    with pytest.raises(InvalidError) as refused:
        await looked(part)
    assert [(one.pointer, one.value, one.rule.split()[2]) for one in refused.value.problems] == [
        ("GPUFLEET_REGIONS", EAST, WEST),
        ("GPUFLEET_REGIONS", EAST, "mars-1"),
    ]
    assert not (await Regions(east.core.table).status(EAST)).drained
    with pytest.raises(InvalidError, match="--leave-out"):
        await looked(everything, leave_out=[WEST, "mars-1"])

    told = await looked(part, leave_out=[WEST, "mars-1"])

    assert (told.left_out, [one.region for one in told.looked]) == ([WEST, "mars-1"], [EAST])
    assert told.looked[0].cluster == f"context {EAST} of {tmp_path / 'kubeconfig'}"


async def test_workers_that_run_over_the_restored_table_are_told(pair, tmp_path):
    east, _ = pair
    settings = east.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"})
    now = east.core.clock.now()
    at = now - timedelta(minutes=30)
    beats = Beats(east.core.table)
    runs = Beat(worker="dispatcher", region=EAST, owner="east/elsewhere/1", at=now)
    for beat in (
        runs,
        runs.model_copy(update={"owner": "east/elsewhere/2", "ended": True}),
        runs.model_copy(update={"owner": "east/elsewhere/3", "at": at - timedelta(minutes=1)}),
        runs.model_copy(update={"owner": "east/elsewhere/4", "worker": "costs"}),
        runs.model_copy(update={"owner": f"{EAST}/{socket.gethostname()}/{2**22 + 1}"}),
    ):
        await beats.put(beat)

    told = await reconcile(settings, east.aws, restored_to=at, apply=False)

    assert told.running == [runs]

"""Programs of the last released version and of this one share a table, queues and a cluster: nothing is lost, nothing runs twice.

What ran is counted from the cluster's own history.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from signal import SIGKILL, SIGTERM

import pytest

from shared.jobs.model import Head
from shared.jobs.states import State
from shared.queues.queue import Queue
from tests.integration.region import job
from tests.upgrade.conftest import REGION, Stage
from tests.upgrade.programs import Door, Program
from workers.local import history

pytestmark = pytest.mark.timeout(180)
SECONDS = 60.0


@pytest.fixture
async def doors(stage: Stage) -> AsyncIterator[dict[str, Door]]:
    """The APIs of both versions."""
    found = {}
    for version in ("old", "new"):
        port = free_port()
        await stage.fleet.start(version, "api", GPUFLEET_API_PORT=str(port))
        found[version] = Door(f"http://127.0.0.1:{port}")
    await asyncio.gather(*(door.until_open() for door in found.values()))
    yield found
    for door in found.values():
        await door.close()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def submit(stage: Stage, doors: dict[str, Door], name: str, *, count: int, **steering: object) -> list[str]:
    """Jobs by both APIs and by the queue, which both versions read; their ids."""
    asked = [
        door.submit(job(f"{name}-{version}-{number}", **steering), labels={"batch": name})
        for version, door in doors.items()
        for number in range(count)
    ]
    queue = await Queue.open(stage.aws.sqs, stage.fleet.settings.submissions_queue)
    for number in range(count):
        message = {"manifest": job(f"{name}-queue-{number}", **steering), "target_region": REGION, "idempotency_key": f"{name}-{number}"}
        await queue.send(json.dumps(message))
    ids = await asyncio.gather(*asked)
    return [*ids, *await queued(stage, doors["new"], name, count)]


async def queued(stage: Stage, door: Door, name: str, count: int) -> list[str]:
    """The ids of the jobs that came by the queue."""
    async with asyncio.timeout(SECONDS):
        while True:
            records = (await door.get("/api/v1/queue/jobs?limit=1000"))["jobs"]
            found = [record["job_id"] for record in records if record["job_name"].startswith(f"{name}-queue-")]
            if len(found) == count:
                return found
            await asyncio.sleep(0.1)


async def ended(stage: Stage, job_ids: Sequence[str]) -> list[Head]:
    """The heads of jobs that have all ended."""
    async with asyncio.timeout(SECONDS):
        while True:
            heads = await stage.heads(list(job_ids))
            if all(head.state.terminal for head in heads):
                return heads
            await asyncio.sleep(0.1)


async def claimed(stage: Stage, job_ids: Sequence[str]) -> None:
    async with asyncio.timeout(SECONDS):
        while any(head.state is State.QUEUED for head in await stage.heads(list(job_ids))):
            await asyncio.sleep(0.1)


async def running(stage: Stage, job_ids: Sequence[str]) -> None:
    async with asyncio.timeout(SECONDS):
        while not all(head.state is State.RUNNING for head in await stage.heads(list(job_ids))):
            await asyncio.sleep(0.1)


def check(stage: Stage, heads: Sequence[Head]) -> None:
    """Each execution of each job has run once, and no other."""
    entries = [{"annotations": one.annotations, "job_uid": one.job_uid, "pod_name": one.pod_name} for one in stage.cluster.started]
    ran = history.executions(entries)
    assert history.started_twice(ran, {}) == []
    wanted = {(head.id, number) for head in heads for number in range(1, head.execution + 1)}
    assert {(one.job_id, one.execution) for one in ran} == wanted


async def stop(programs: Sequence[Program], number: int) -> None:
    codes = await asyncio.gather(*(program.end(number) for program in programs))
    if number == SIGTERM:
        assert set(codes) == {0}, [program.told() for program in programs]


async def test_a_table_of_the_released_version_serves_this_one_as_it_is(stage):
    said = json.loads(await stage.fleet.command("new", "bootstrap", "--json"))

    assert said["made"] == []
    assert len(said["stood"]) > 3


@pytest.mark.parametrize(
    ("ends_old", "ends_new"),
    [pytest.param(SIGTERM, SIGKILL, id="SIGTERM-SIGKILL"), pytest.param(SIGKILL, SIGTERM, id="SIGKILL-SIGTERM", marks=pytest.mark.slow)],
)
async def test_workers_are_upgraded_and_downgraded_while_jobs_run(stage, doors, ends_old, ends_new, request):
    """Old workers run; new ones come beside them; the old end. Then the same way back."""
    if ends_old == SIGKILL and "slow" not in request.config.option.markexpr:
        pytest.skip("the other way round is run by `pytest -m slow tests/upgrade`")
    old = await stage.fleet.workers("old", REGION)
    long = await submit(stage, doors, "long", count=2, duration=6)
    cancelled = await doors["old"].submit(job("cancelled", duration=3600))
    await running(stage, [*long, cancelled])

    new = await stage.fleet.workers("new", REGION)
    beside = await submit(stage, doors, "beside", count=8)
    flaky = [
        await door.submit(job(f"flaky-{version}", exit_code="1,0"), retry={"max_attempts": 2, "backoff_seconds": 1})
        for version, door in doors.items()
    ]
    await ended(stage, beside)
    await stop(old, ends_old)
    kept = await drained(doors)
    later = await submit(stage, doors, "later", count=2, duration=4)
    await claimed(stage, later)

    downgrading = asyncio.create_task(submit(stage, doors, "downgrade", count=4))
    await stage.fleet.workers("old", REGION)
    await stop(new, ends_new)
    downgraded = await downgrading
    await doors["old"].cancel(cancelled)

    heads = await ended(stage, [*long, *beside, *flaky, kept, *later, *downgraded])
    (stopped,) = await ended(stage, [cancelled])
    assert {head.state for head in heads} == {State.SUCCEEDED}
    assert {head.attempts for head in heads if head.id in flaky} == {1}
    assert stopped.state is State.CANCELLED
    check(stage, [*heads, stopped])
    await claimed_by(doors, long, old)
    await claimed_by(doors, later, new)
    await told_alike(doors, heads[:3])


async def drained(doors: dict[str, Door]) -> str:
    """A region that this version drains: a job that the released one takes meanwhile waits; gives its id when the region is open again."""
    await doors["new"].post(f"/fleet/v1/regions/{REGION}/drain", move=True, reason="between two versions")
    job_id = await doors["old"].submit(job("kept"))
    await doors["new"].post(f"/fleet/v1/regions/{REGION}/resume")
    return job_id


async def claimed_by(doors: dict[str, Door], job_ids: Sequence[str], workers: Sequence[Program]) -> None:
    """Jobs that came while one version's dispatcher was alone were claimed by it, and by nobody else before or after."""
    claims = [event["by"] for job_id in job_ids for event in await events(doors["new"], job_id) if event["type"] == "claimed"]
    (dispatcher,) = (program for program in workers if "-dispatcher-" in program.name)
    assert len(claims) >= len(job_ids)
    assert {owner.rpartition("/")[2] for owner in claims} == {str(dispatcher.process.pid)}


async def told_alike(doors: dict[str, Door], heads: Sequence[Head]) -> None:
    """Each version tells the whole history of what both have written."""
    for door in doors.values():
        for head in heads:
            assert [event["number"] for event in await events(door, head.id)] == list(range(1, head.revision + 1))


async def events(door: Door, job_id: str) -> list[dict]:
    return list((await door.get(f"/fleet/v1/jobs/{job_id}/events"))["events"])

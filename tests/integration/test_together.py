"""A small region in one process: it does all the work, and says so when a part of it has ended."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager

import httpx
import pytest

from shared.errors import UnavailableError
from shared.health.model import LoopState
from shared.jobs.dispatch import Dispatch
from shared.store.beats import Beats
from tests.integration.region import REGION, job, running_region
from workers.api.server import ExposedError, ServerSettings
from workers.local.ports import free_ports
from workers.together.parts import DEFAULT, NAMES
from workers.together.running import LoopEndedError, run

JOBS = "/api/v1/queue/jobs"
SETTINGS = {"shutdown_seconds": 5, "webhook_local": True, "metrics_port": 0, "regions": (REGION,)}


@pytest.fixture
async def region(fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path, kubeconfig=tmp_path / "kubeconfig", **SETTINGS) as found:
        yield found


@asynccontextmanager
async def together(region, names=NAMES, *, linger=0.2):
    """The process's task and a client of its API, which answers."""
    (port,) = free_ports(1)
    stop = asyncio.Event()
    task = asyncio.create_task(run(region.settings, ServerSettings(port=port), REGION, names, stop, linger=linger))
    # An emulator reads a service when it is first asked of it, which on a busy machine takes longer than httpx waits.
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client:
        try:
            await until(lambda: answers(client, "/healthz", 200))
            yield task, client
        finally:
            stop.set()
            await asyncio.gather(task, return_exceptions=True)


async def answers(client, path, status):
    try:
        return (await client.get(path)).status_code == status
    except httpx.TransportError:
        return False


async def until(condition, seconds=20.0):
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


async def queue_worker(client):
    return (await client.get("/api/v1/status")).json()["central_queue_worker"]


async def test_one_process_takes_dispatches_observes_and_ends_with_all_of_its_loops(region):
    async with together(region) as (task, client):
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        made = (await client.post(JOBS, json={"manifest": job(), "target_region": REGION})).json()["job"]
        await region.core.doorbell.ring(REGION, made["job_id"])
        await region.until(made["job_id"], "succeeded")
        told = await queue_worker(client)

    assert (told["enabled"], told["running"], told["stopping"], told["last_error"]) == (True, True, False, None)
    assert told["owner"].startswith(f"{REGION}/")
    assert told["last_successful_pass_at"] >= told["last_pass_started_at"]
    assert task.done()
    assert task.exception() is None


async def test_it_tells_webhooks_too_and_each_loop_tells_how_it_is(region):
    async def taken(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    async with together(region) as (_, client), await asyncio.start_server(taken, "127.0.0.1", 0) as receiver:
        url = f"http://127.0.0.1:{receiver.sockets[0].getsockname()[1]}/"
        wanted = {"url": url, "events": ["job.completed"], "namespace": "gco-jobs"}
        webhook = (await client.post("/api/v1/webhooks", json=wanted)).raise_for_status().json()["webhook"]
        (await client.post(JOBS, json={"manifest": job(), "target_region": REGION})).raise_for_status()

        async def delivered():
            found = (await client.get(f"/fleet/v1/webhooks/{webhook['id']}/deliveries")).json()["deliveries"]
            return [one["state"] for one in found] == ["delivered"]

        async def all_tell():
            return {beat.worker for beat in await Beats(region.core.table).latest() if beat.state is LoopState.WELL} == set(NAMES)

        await until(delivered)
        await until(all_tell)


def test_metrics_run_where_they_are_asked_for():
    assert set(NAMES) - set(DEFAULT) == {"metrics"}


async def test_without_a_dispatcher_there_is_none_to_tell_of(region):
    async with together(region, ["sweeper"]) as (_, client):
        told = await queue_worker(client)

    assert (told["enabled"], told["running"], told["owner"], told["last_pass_started_at"]) == (False, False, None, None)


async def test_a_loop_that_ends_makes_the_process_not_ready_and_then_end(region, monkeypatch):
    async with together(region, ["dispatcher", "sweeper"], linger=1.0) as (task, client):
        assert await answers(client, "/readyz", 200)

        async def broken(*_):
            raise ZeroDivisionError("a fault of ours")

        monkeypatch.setattr(Dispatch, "claim", broken)
        await region.core.doorbell.ring(REGION, "00000000-0000-0000-0000-000000000000")
        await until(lambda: answers(client, "/readyz", 503))
        refused, lives, told = await client.get("/readyz"), await client.get("/healthz"), await queue_worker(client)
        with pytest.raises(LoopEndedError, match="dispatcher"):
            await task

    assert refused.json()["detail"] == "stopped unexpectedly in this process: dispatcher"
    assert lives.status_code == 200
    assert (told["enabled"], told["running"]) == (True, False)


async def test_a_pass_that_could_not_be_made_is_told_and_the_loop_goes_on(region, monkeypatch):
    async with together(region, ["dispatcher"]) as (_, client):
        with monkeypatch.context() as patch:

            async def away(*_):
                raise UnavailableError("throttled")

            patch.setattr(Dispatch, "claim", away)
            await region.core.doorbell.ring(REGION, "00000000-0000-0000-0000-000000000000")

            async def says_so():
                return (await queue_worker(client))["last_error"] == "throttled"

            await until(says_so)
            assert await answers(client, "/readyz", 200)

        async def well_again():
            return (await queue_worker(client))["last_error"] is None

        await until(well_again)


async def test_it_listens_no_further_than_the_api_alone(region):
    with pytest.raises(ExposedError):
        await run(region.settings, ServerSettings(host="0.0.0.0"), REGION, NAMES, asyncio.Event())


@pytest.mark.parametrize(
    ("arguments", "told"), [([], "--region"), (["--region", "us-east-1", "--loops", "dispatcher,x"], "'x' is none of")]
)
def test_what_it_can_not_be_started_with_is_named(arguments, told):
    ended = subprocess.run([sys.executable, "-m", "workers.together", *arguments], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 2
    assert told in ended.stderr

"""Logs that are followed through the GCO door: over restarts of the API, and with clients that leave, wait or take nothing."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from tests.integration.api.streaming import Reader, served
from tests.integration.api.test_gco_logs import JOBS, NAMESPACE, a_job, made, pods_of
from workers.api import following
from workers.api.following import Stretch

LOGS = f"/api/v1/jobs/{NAMESPACE}/train/logs"


@pytest.fixture
async def core(cluster_core):
    return cluster_core


@pytest.fixture
async def api(core):
    async with served(core) as found:
        yield found


def numbered(count, name="line"):
    return [f"{name} {number}" for number in range(count)]


async def start(region, **options):
    await region.api.request("POST", JOBS, body=a_job(**options))


async def test_a_job_is_followed_to_its_end(api, region):
    await start(region, duration=0.6, logs="\n".join(numbered(20)))

    reader = await Reader().read(api.url, LOGS)

    assert reader.texts == numbered(20)
    pod = reader.lines[0]["pod"]
    assert reader.lines[0].keys() == {"pod", "container", "line", "timestamp"}
    assert reader.lines[0]["timestamp"].endswith("Z")
    assert reader.others[0] == ("container", {"pod": pod, "container": "main"})
    assert reader.end == {"outcome": "succeeded", "reason": "CompletionsReached", "message": reader.end["message"], "whole": True}


async def test_one_pod_is_followed_to_its_end(api, region):
    await start(region, duration=0.3, logs="a\nb", completions=2)
    async with asyncio.timeout(10):
        while not (pods := await pods_of(region, "train")):
            await asyncio.sleep(0.02)
    name = pods[0]["metadata"]["name"]

    by_path = await Reader().read(api.url, f"/api/v1/jobs/{NAMESPACE}/train/pods/{name}/logs")
    by_parameter = await Reader().read(api.url, LOGS, pod=name)

    assert by_path.texts == by_parameter.texts == ["a", "b"]
    assert {line["pod"] for line in by_path.lines} == {name}


async def test_a_job_that_waits_is_waited_for(api, region):
    await start(region, suspend=True, duration=0.1, logs="a\nb")
    following = asyncio.create_task(Reader().read(api.url, LOGS))
    await region.until_true(lambda: api.following._free < 200)
    await region.api.request("PATCH", f"{JOBS}/train", body={"spec": {"suspend": False}}, content_type="application/merge-patch+json")

    reader = await following

    assert reader.texts == ["a", "b"]


async def test_a_restart_of_the_api_is_quick_and_loses_and_doubles_nothing(core, region):
    await start(region, duration=3.0, logs="\n".join(numbered(60)), containers=("main", "side"), logs__side="\n".join(numbered(60, "s")))
    reader = Reader()
    restarts = []

    while reader.end is None:
        async with served(core) as api:
            reading = asyncio.create_task(reader.read(api.url, LOGS))
            seen = len(reader.lines)
            await region.until_true(lambda seen=seen, reading=reading: reading.done() or len(reader.lines) >= seen + 25)
            begun = time.monotonic()
            await api.stop()
            restarts.append(time.monotonic() - begun)
            await reading

    assert [line["line"] for line in reader.lines if line["container"] == "main"] == numbered(60)
    assert [line["line"] for line in reader.lines if line["container"] == "side"] == numbered(60, "s")
    assert len(restarts) > 2
    assert max(restarts) < 3


async def test_a_client_that_leaves_leaves_nothing_behind(api, region):
    await made(region, logs="a\nb", parallelism=2)

    await Reader().read(api.url, LOGS, until=2)

    await region.until_true(lambda: api.following._free == 200)
    await region.until_true(lambda: not [task for task in asyncio.all_tasks() if "Follow" in task.get_coro().__qualname__])


async def test_a_quiet_stream_is_kept_alive(api, region, monkeypatch):
    monkeypatch.setattr(following, "KEEP_ALIVE_SECONDS", 0.1)
    await made(region)
    async with httpx.AsyncClient(base_url=api.url) as client, client.stream("GET", LOGS, params={"follow": True}) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        async with asyncio.timeout(10):
            pings = 0
            async for line in answer.aiter_lines():
                pings += line.startswith(":")
                if pings == 3:
                    break


@pytest.mark.parametrize(
    "stretch",
    [Stretch(seconds=0.3), Stretch(seconds=60.0, after_first_seconds=0.2), Stretch(seconds=60.0, size=200)],
    ids=["time", "time since the first line", "size"],
)
async def test_a_stream_that_is_long_ends_and_is_gone_on_with(core, region, stretch):
    await start(region, duration=2.0, logs="\n".join(numbered(20)))
    reader, rounds = Reader(), 0

    async with served(core, stretch=stretch) as api:
        while reader.end is None:
            await reader.read(api.url, LOGS)
            rounds += 1

    assert reader.texts == numbered(20)
    assert rounds > 1
    assert [kind for kind, _ in reader.others].count("again") == rounds - 1


async def test_a_process_follows_so_many_and_no_more(core, region):
    await made(region, logs="a")
    async with served(core, limit=1) as api, httpx.AsyncClient(base_url=api.url) as client:
        async with client.stream("GET", LOGS, params={"follow": True}) as first:
            second = await client.get(LOGS, params={"follow": True})
        assert (first.status_code, second.status_code) == (200, 503)
        assert second.headers["retry-after"] == "5"
        await region.until_true(lambda: api.following._free == 1)


async def test_what_can_not_be_followed_is_told_before_it_begins(api, region):
    await made(region)
    (other,) = await made(region, name="other")
    async with httpx.AsyncClient(base_url=api.url) as client:

        async def status(path=LOGS, headers=None, **params):
            return (await client.get(path, params={"follow": True, **params}, headers=headers)).status_code

        assert await status(f"/api/v1/jobs/{NAMESPACE}/none/logs") == 404
        assert await status("/api/v1/jobs/kube-system/train/logs") == 403
        assert await status(container="x") == 400
        assert await status(pod="none") == 404
        assert await status(pod=other["metadata"]["name"]) == 400
        assert await status(previous=True) == 422
        region.fault(path="/pods$", status=403)
        assert await status() == 502
        refused = await client.get(LOGS, params={"follow": True}, headers={"Last-Event-ID": "nonsense"})
        assert refused.status_code == 422
        assert refused.json()["detail"][0]["loc"] == ["header", "Last-Event-ID"]
    assert api.following._free == 200

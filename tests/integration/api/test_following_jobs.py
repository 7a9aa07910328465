"""A job that is followed through the fleet's door: over executions, restarts of the API, and from live logs to kept ones."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import pytest

from shared.clusters.kept_logs import KeptLog, KeptLogs, LostLog, log_key, read_kept, write_index
from shared.jobs.model import RetryPolicy
from shared.jobs.states import State
from tests.integration.api.streaming import Reader, served
from tests.integration.region import job
from workers.api.following import WHOLE


@pytest.fixture
async def core(cluster_core):
    return cluster_core


@pytest.fixture
async def api(core):
    async with served(core) as found:
        yield found


def numbered(count, name="line"):
    return [f"{name} {number}" for number in range(count)]


def logs_of(job_id):
    return f"/fleet/v1/jobs/{job_id}/logs"


async def working(region):
    await region.dispatcher()
    await region.observer()


async def test_a_job_is_followed_from_the_queue_to_its_end(api, region):
    head = await region.submit(manifest=job(duration=0.5, logs="\n".join(numbered(20))))
    following = asyncio.create_task(Reader().read(api.url, logs_of(head.id)))
    await working(region)

    reader = await following

    assert reader.texts == numbered(20)
    assert reader.lines[0].keys() == {"execution", "pod", "container", "line", "timestamp"}
    assert (reader.end["outcome"], reader.end["execution"], reader.end["whole"]) == ("succeeded", 1, True)


async def test_plain_text_is_for_who_asks_for_nothing_else(api, region):
    await working(region)
    head = await region.submit(manifest=job(duration=0.3, logs="a\nb"))

    async with httpx.AsyncClient(base_url=api.url, timeout=30) as client:
        answer = await client.get(logs_of(head.id), params={"follow": True})

    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == "a\nb\n"


async def test_where_answers_are_whole_lines_come_by_many_short_ones(core, region):
    async with served(core, stretch=replace(WHOLE, seconds=0.4, after_first_seconds=0.1)) as api:
        head = await region.submit(manifest=job(duration=1.5, logs="\n".join(numbered(20))))
        await working(region)
        reader, rounds = Reader(), 0
        while reader.end is None:
            await reader.read(api.url, logs_of(head.id))
            rounds += 1

    assert reader.texts == numbered(20)
    assert rounds > 2


async def test_where_answers_are_whole_what_can_not_be_gone_on_with_is_refused(core, region):
    head = await region.submit(manifest=job(logs="a"))
    async with served(core, stretch=WHOLE) as api, httpx.AsyncClient(base_url=api.url) as client:
        answer = await client.get(logs_of(head.id), params={"follow": True})

    assert answer.status_code == 503
    assert "send Accept: text/event-stream" in answer.json()["detail"]


async def test_executions_follow_each_other(api, region):
    manifest = job(duration=0.2, logs="\n".join(numbered(5)), exit_code="1,0")
    head = await region.submit(manifest=manifest, retry=RetryPolicy(max_attempts=2, backoff_seconds=0))
    following = asyncio.create_task(Reader().read(api.url, logs_of(head.id)))
    await working(region)
    await region.sweeper()

    reader = await following

    assert reader.texts == numbered(5) * 2
    assert [line["execution"] for line in reader.lines] == [1] * 5 + [2] * 5
    assert (reader.end["outcome"], reader.end["execution"]) == ("succeeded", 2)


async def test_restarts_of_the_api_lose_and_double_nothing(core, region):
    await working(region)
    head = await region.submit(manifest=job(duration=3.0, logs="\n".join(numbered(60))))
    reader, rounds = Reader(), 0

    while reader.end is None:
        async with served(core) as api:
            reading = asyncio.create_task(reader.read(api.url, logs_of(head.id)))
            seen = len(reader.lines)
            await region.until_true(lambda seen=seen, reading=reading: reading.done() or len(reader.lines) >= seen + 15)
            await api.stop()
            await reading
            rounds += 1

    assert reader.texts == numbered(60)
    assert rounds > 2


async def test_what_was_not_seen_of_an_execution_that_has_ended_comes_from_its_kept_log(api, core, region):
    await working(region)
    head = await region.submit(manifest=job(duration=0.4, logs="\n".join(numbered(20))))
    reader = await Reader().read(api.url, logs_of(head.id), until=7)
    await region.until(head.id, State.SUCCEEDED)
    region.fault(path="/log$", status=500, times=1000)

    await reader.read(api.url, logs_of(head.id))

    assert reader.texts == numbered(20)
    assert reader.end["outcome"] == "succeeded"
    assert (await read_kept(core.objects, head.id, 1)).containers[0].timestamps


async def test_a_job_that_has_ended_is_told_from_its_kept_logs_without_times(api, region):
    await working(region)
    head = await region.submit(manifest=job(duration=0.1, logs="a\nb"))
    await region.until(head.id, State.SUCCEEDED)

    reader = await Reader().read(api.url, logs_of(head.id))
    async with httpx.AsyncClient(base_url=api.url) as client:
        whole = await client.get(logs_of(head.id))
        tail = await client.get(logs_of(head.id), params={"tail": 1})
        followed = await client.get(logs_of(head.id), params={"follow": True})

    assert reader.texts == ["a", "b"]
    assert reader.lines[0]["timestamp"].endswith("Z")
    assert (whole.text, tail.text, followed.text) == ("a\nb\n", "b\n", "a\nb\n")


async def test_logs_that_an_earlier_release_kept_are_told_and_never_doubled(api, core, region):
    await working(region)
    head = await region.submit(manifest=job(duration=0.4, logs="\n".join(numbered(10))))
    reader = await Reader().read(api.url, logs_of(head.id), until=4)
    await region.until(head.id, State.SUCCEEDED)
    pod = reader.lines[0]["pod"]
    await keep_plain(core, head.id, pod, "\n".join(numbered(10)) + "\n")

    late = await Reader().read(api.url, logs_of(head.id))
    await reader.read(api.url, logs_of(head.id))

    assert late.texts == numbered(10)
    assert late.lines[0]["timestamp"] is None
    assert reader.texts == numbered(4)


async def keep_plain(core, job_id, pod, text, **more):
    key = log_key(job_id, 1, pod, "main")
    await core.objects.put(key, text.encode())
    kept = KeptLog(pod=pod, container="main", key=key, bytes=len(text), **more)
    lost = LostLog(pod=pod, container="side", why="no time was left")
    await write_index(core.objects, KeptLogs(job_id=job_id, execution=1, kept_at=datetime.now(UTC), containers=(kept,), lost=(lost,)))


async def test_what_was_not_kept_is_told(api, core, region):
    await working(region)
    head = await region.submit(manifest=job(duration=0.1, logs="a"))
    await region.until(head.id, State.SUCCEEDED)
    await keep_plain(core, head.id, "pod-1", "the end\n", truncated=True)

    reader = await Reader().read(api.url, logs_of(head.id))

    notices = [data["message"] for kind, data in reader.others if kind == "notice"]
    assert notices == ["of this log the last 8 bytes were kept", "this log was not kept: no time was left"]
    assert reader.end["whole"] is False


async def test_a_job_that_ends_without_having_run_ends_the_stream(api, region):
    head = await region.submit(manifest=job())
    following = asyncio.create_task(Reader().read(api.url, logs_of(head.id)))
    await region.until_true(lambda: api.following._free < 200)

    await region.cancel(head.id)
    reader = await following

    assert (reader.texts, reader.end["outcome"], reader.end["reason"]) == ([], "cancelled", "a test")


async def test_logs_that_nobody_kept_are_said_to_be_missing(api, region):
    await working(region)
    region.fault(path="/log$", status=500, times=1000)
    head = await region.submit(manifest=job(duration=0.05, logs="a"))
    await region.until(head.id, State.SUCCEEDED)

    reader = await Reader().read(api.url, logs_of(head.id))

    (notice,) = [data for kind, data in reader.others if kind == "notice"]
    assert notice["message"].startswith("what is missing was not kept: Logs of execution ")
    assert (reader.texts, reader.end["outcome"], reader.end["whole"]) == ([], "succeeded", False)


@pytest.mark.parametrize("position", ["x", "1", "0.AA", "1.AA", "99999999999.AA"])
async def test_what_is_no_position_is_refused(api, region, position):
    head = await region.submit(manifest=job())
    headers = {"Last-Event-ID": position, "Accept": "text/event-stream"}
    async with httpx.AsyncClient(base_url=api.url) as client:
        answer = await client.get(logs_of(head.id), params={"follow": True}, headers=headers)

    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["header", "Last-Event-ID"]

"""Following the logs of a Job over streams that break and an API server or a machine that is gone: each line comes once."""

import asyncio

import pytest

from shared.clusters import container_following, log_following
from shared.clusters.kinds import JOB
from tests.integration.clusters.builders import NAMESPACE
from tests.integration.clusters.log_readers import Shown, create, follow, numbered
from workers.local.cluster import ClusterServer, Fault


@pytest.mark.parametrize("action", ["stream_ends", "stream_breaks"])
async def test_a_stream_that_ends_early_is_taken_up_again(api, server, action):
    server.faults.add(Fault(path="/log$", action=action, lines=3, times=3))
    job = await create(api, duration=1.5, logs=numbered(40))

    shown = await follow(api, job)

    assert shown.texts == numbered(40)
    assert server.faults.waiting == []


async def test_a_log_that_is_rotated_is_followed_on(api):
    job = await create(api, duration=2.4, logs=numbered(24), rotate_lines=6)

    shown = await follow(api, job)

    assert shown.texts == numbered(24)


async def test_an_api_server_that_does_not_answer_for_a_while_loses_nothing(api, server, monkeypatch):
    monkeypatch.setattr(container_following, "LONGEST_PAUSE", 0.4)
    server.faults.add(Fault(path="/log$", action="stream_breaks", lines=5))
    server.faults.add(Fault(path="/log$", status=503, times=4))
    server.faults.add(Fault(path="/pods$", action="stream_breaks", lines=1))
    job = await create(api, duration=0.5, logs=numbered(20))

    shown = await follow(api, job)

    assert shown.texts == numbered(20)


async def test_an_api_server_that_is_started_anew_loses_nothing(api, server):
    job = await create(api, containers=("main", "side"), duration=2.0, logs__main=numbered(40, "m"), logs__side=numbered(40, "s"))
    shown = Shown()
    following = asyncio.create_task(follow(api, job, shown=shown))
    async with asyncio.timeout(10):
        while len(shown.lines) < 10:
            await asyncio.sleep(0.02)

    await server.stop()
    again = ClusterServer(server.cluster, port=server.port)
    await again.start()
    try:
        await following
    finally:
        await again.stop()

    assert (shown.of("main"), shown.of("side")) == (numbered(40, "m"), numbered(40, "s"))
    assert shown.end.outcome == "succeeded"


async def test_a_run_that_ended_while_the_connection_was_broken_is_shown_from_the_run_before(api, server):
    server.faults.add(Fault(path="/log$", action="stream_breaks", lines=2))
    server.faults.add(Fault(path="/log$", status=503, times=2))
    job = await create(api, duration=0.3, logs=numbered(10), restart="OnFailure", backoff_limit=5, exit_code="1,0")

    shown = await follow(api, job)

    assert shown.texts == numbered(10) * 2


async def test_a_pod_whose_machine_is_gone_does_not_hold_the_end(api, server, monkeypatch):
    monkeypatch.setattr(container_following, "DRAINING_SECONDS", 0.5)
    job = await create(api, duration=0.3, logs=numbered(5))
    await follow(api, job, until=5)
    server.faults.add(Fault(path="/log$", status=500, times=1000))

    shown = await follow(api, job)

    assert shown.end.outcome == "succeeded"
    assert not shown.end.whole
    assert "may be missing" in shown.notices[0]


async def test_a_pod_that_does_not_end_with_its_job_does_not_hold_the_end(api, monkeypatch):
    monkeypatch.setattr(log_following, "LINGER_SECONDS", 0.3)
    monkeypatch.setattr(container_following, "STANDING_SECONDS", 0.1)
    job = await create(api, hang="true", logs=numbered(2))
    await follow(api, job, until=2)
    condition = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "enough"}
    path = f"{JOB.path(NAMESPACE, 'train')}/status"
    following = asyncio.create_task(follow(api, job))
    await api.request("PATCH", path, body={"status": {"conditions": [condition]}}, content_type="application/merge-patch+json")

    shown = await following

    assert shown.texts == numbered(2)
    assert (shown.end.outcome, shown.end.reason, shown.end.message) == ("failed", "BackoffLimitExceeded", "enough")

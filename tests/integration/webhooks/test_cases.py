"""What broke elsewhere, to the end of the way: cluster, observer, table, stream, queue, endpoint."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import datetime

import pytest

from shared.jobs.model import RetryPolicy
from shared.jobs.states import State
from tests.integration.jobs.test_ends import completion
from tests.integration.region import job, running_region
from tests.integration.webhooks.fleet import events_of, ids, running_fleet, until


@pytest.fixture
async def place(fleet_resources, tmp_path):
    """A region whose jobs are told to one receiver."""
    async with running_region(fleet_resources, tmp_path, lease_seconds=3.0) as region, running_fleet(fleet_resources) as fleet:
        receiver = await fleet.receiver()
        region.webhook = await fleet.subscribe(receiver)
        await fleet.worker()
        await region.dispatcher()
        await region.observer()
        yield region, fleet, receiver


def documents(receiver, job_id):
    found = [json.loads(one.body) for one in receiver.received]
    return [one for one in found if one["job_id"] == job_id]


async def told_of(receiver, job_id, *, last, seconds=10.0):
    await until(lambda: last in events_of(receiver, job_id), seconds=seconds)


async def test_a_failure_whose_pod_goes_in_the_same_second_is_told_once(place):
    """Case 8."""
    region, _, receiver = place
    head = await region.submit(manifest=job(duration=0.3, exit_code="3"))
    await region.until(head.id, State.PENDING, State.RUNNING)
    path = f"/apis/batch/v1/namespaces/gco-jobs/jobs/{(await region.head(head.id)).object.name}"
    async with asyncio.timeout(10):
        while not (await region.api.request("GET", path))["status"].get("failed"):
            await asyncio.sleep(0.01)
    for pod in (await region.api.request("GET", "/api/v1/namespaces/gco-jobs/pods"))["items"]:
        await region.api.request("DELETE", f"/api/v1/namespaces/gco-jobs/pods/{pod['metadata']['name']}")
    await region.until(head.id, State.FAILED)
    await region.api.request("DELETE", path, body={"propagationPolicy": "Background"})
    after = await region.submit(manifest=job("after", duration=0.01))
    await told_of(receiver, after.id, last="job.completed")

    assert Counter(events_of(receiver, head.id))["job.failed"] == 1
    assert set(ids(receiver).values()) == {1}
    (failed,) = [one for one in documents(receiver, head.id) if one["event"] == "job.failed"]
    assert (failed["reason"], failed["job"]["status"], failed["job"]["failed"]) == ("BackoffLimitExceeded", "failed", 1)


async def test_a_pod_that_fails_within_its_backoff_limit_is_told_as_no_failure(place):
    """Case 9: no `job.failed`, one `job.completed`."""
    region, _, receiver = place
    head = await region.submit(manifest=job(backoff_limit=3, exit_code="1,1,0"))
    await told_of(receiver, head.id, last="job.completed", seconds=20)

    told = Counter(events_of(receiver, head.id))
    assert (told["job.completed"], told["job.failed"], told["job.queued"], told["job.interrupted"]) == (1, 0, 1, 0)
    done = documents(receiver, head.id)[-1]["job"]
    assert (done["succeeded"], done["failed"]) == (1, 2)


async def test_an_attempt_that_is_tried_again_is_told_as_queued_and_only_the_last_as_failed(place, monkeypatch):
    """Case 9, of whole executions."""
    region, _, receiver = place
    await region.sweeper()
    retry = RetryPolicy(max_attempts=2, backoff_seconds=0, max_backoff_seconds=0)
    head = await region.submit(manifest=job(exit_code="1"), retry=retry)
    await told_of(receiver, head.id, last="job.failed", seconds=20)

    told = [event for event in events_of(receiver, head.id) if event != "job.started"]
    assert told == ["job.queued", "job.queued", "job.failed"]
    assert [one["execution"] for one in documents(receiver, head.id) if one["event"] != "job.started"] == [1, 2, 2]


async def test_a_machine_that_is_lost_is_told_as_an_interruption(place):
    """Case 10: a new execution, and no failure."""
    region, _, receiver = place
    head = await region.submit(manifest=job(duration=0.4, interrupt_after=0.1), retry=RetryPolicy(max_attempts=1))
    await told_of(receiver, head.id, last="job.completed", seconds=20)

    told = documents(receiver, head.id)
    assert Counter(one["event"] for one in told)["job.interrupted"] == 1
    assert "job.failed" not in events_of(receiver, head.id)
    uids = {one["event"]: one["job"]["uid"] for one in told}
    assert uids["job.interrupted"] != uids["job.completed"]
    assert [one["execution"] for one in told if one["event"] in ("job.interrupted", "job.completed")] == [1, 2]


async def test_jobs_that_end_in_the_same_second_are_all_told_within_seconds(place):
    """Case 13: 25 jobs that end in the same second, while 60 run for hours."""
    region, fleet, receiver = place
    long = [await region.submit(manifest=job(f"long-{number}", hang="true")) for number in range(60)]
    heads = await asyncio.gather(*(region.submit(manifest=job(f"short-{number}", hang="true")) for number in range(25)))
    running = await asyncio.gather(*(region.until(head.id, State.RUNNING, seconds=60) for head in (*long, *heads)))
    ending = [head for head in running if head.id in {one.id for one in heads}]
    await asyncio.gather(*(region.api.request("PATCH", **completion(head.object.name)) for head in ending))

    await until(lambda: all("job.completed" in events_of(receiver, head.id) for head in heads), seconds=20)

    assert set(ids(receiver).values()) == {1}
    for head in heads:
        assert [event for event in events_of(receiver, head.id) if event != "job.started"] == ["job.queued", "job.completed"]
    ended = {head.id: (await region.head(head.id)).finished_at for head in heads}
    for delivery in (await fleet.deliveries.page(region.webhook.id, limit=1000)).deliveries:
        if delivery.type == "job.completed":
            assert delivery.finished_at is not None
            assert isinstance(ended[delivery.job_id], datetime)
            assert (delivery.finished_at - ended[delivery.job_id]).total_seconds() < 20

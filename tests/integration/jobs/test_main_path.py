"""A job from submission to its end, through every loop."""

import asyncio
from datetime import timedelta

import pytest

from shared.jobs.model import EventType, RetryPolicy, Timeouts
from shared.jobs.states import State
from shared.jobs.submission import KeyTakenError
from shared.store.counters import Counters
from tests.integration.region import REGION, job


async def test_a_job_runs_once_and_its_history_tells_all_of_it(region):
    await region.dispatcher()
    await region.observer()

    head = await region.submit()
    done = await region.until(head.id, State.SUCCEEDED)

    assert [event.type for event in await region.events(head.id)][:3] == [EventType.SUBMITTED, EventType.CLAIMED, EventType.COMMITTED]
    assert [event.number for event in await region.events(head.id)] == list(range(1, done.revision + 1))
    assert len(region.starts(head.id)) == 1
    assert done.message == "logs kept: 1 container"
    counts = (await Counters(region.core.table, region.core.layout).by_region([REGION]))[REGION]
    assert {state: count for state, count in counts.items() if count} == {State.SUCCEEDED: 1}


async def test_a_job_that_fails_twice_succeeds_in_its_third_execution(region):
    await region.dispatcher()
    await region.observer()

    head = await region.submit(manifest=job(exit_code="1,1,0"), retry=RetryPolicy(max_attempts=3, backoff_seconds=0))
    done = await region.until(head.id, State.SUCCEEDED, State.FAILED)

    assert (done.state, done.execution, done.attempts) == (State.SUCCEEDED, 3, 2)
    assert len(region.starts(head.id)) == 3


async def test_a_job_that_always_fails_ends_with_the_cluster_s_reason(region):
    await region.dispatcher()
    await region.observer()

    head = await region.submit(manifest=job(exit_code="1"))
    done = await region.until(head.id, State.FAILED)

    assert done.reason == "BackoffLimitExceeded"
    assert len(region.starts(head.id)) == 1


async def test_a_running_job_is_cancelled_when_its_pods_are_gone(region):
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true"))
    await region.until(head.id, State.RUNNING)

    marked = await region.cancel(head.id)
    done = await region.until(head.id, State.CANCELLED)

    assert marked.stop is not None
    assert done.finished_at is not None
    assert await region.objects() == []


async def test_a_queued_job_is_cancelled_at_once(region):
    head = await region.submit()

    assert (await region.cancel(head.id)).state is State.CANCELLED
    assert await region.core.store.ready(REGION, 10) == []


async def test_an_execution_that_overruns_its_limit_is_stopped_and_tried_again(region):
    await region.dispatcher()
    await region.observer()
    await region.sweeper()

    head = await region.submit(
        manifest=job(hang="true"), retry=RetryPolicy(max_attempts=2, backoff_seconds=0), timeouts=Timeouts(execution_seconds=1)
    )
    done = await region.until(head.id, State.FAILED, seconds=30)

    assert (done.reason, done.attempts, done.execution) == ("execution timeout", 2, 2)
    assert len(region.starts(head.id)) == 2
    assert await region.objects() == []


async def test_a_job_nobody_takes_fails_when_its_time_in_the_queue_is_up(region):
    await region.sweeper()

    head = await region.submit(timeouts=Timeouts(queue_seconds=1))
    done = await region.until(head.id, State.FAILED)

    assert done.reason == "queue timeout"


async def test_the_total_limit_ends_a_running_job_for_good(region):
    await region.dispatcher()
    await region.observer()
    await region.sweeper()

    head = await region.submit(manifest=job(hang="true"), retry=RetryPolicy(max_attempts=5), timeouts=Timeouts(total_seconds=2))
    done = await region.until(head.id, State.FAILED)

    assert done.reason == "total timeout"
    assert await region.objects() == []


async def test_the_same_key_gives_the_same_job_and_another_body_is_refused(region):
    first = await region.submit(idempotency_key="k-1")
    again = await region.submit(idempotency_key="k-1")

    assert again.id == first.id
    with pytest.raises(KeyTakenError):
        await region.submit(manifest=job("other"), idempotency_key="k-1")
    assert len(await region.core.store.ready(REGION, 10)) == 1


async def test_higher_priority_is_claimed_first_at_any_depth(region):
    for number in range(12):
        await region.submit(manifest=job(f"plain-{number}"))
    urgent = await region.submit(manifest=job("urgent"), priority=100)

    assert (await region.core.store.ready(REGION, 3))[0].job_id == urgent.id


async def test_what_supports_a_job_lives_and_dies_with_it(region):
    await region.dispatcher()
    await region.observer()
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "peers"}, "spec": {"clusterIP": "None"}}

    head = await region.submit(manifest=job(hang="true"), supporting=[service])
    await region.until(head.id, State.RUNNING)
    found = await region.api.request("GET", "/api/v1/namespaces/gco-jobs/services/peers")
    await region.cancel(head.id)
    await region.until(head.id, State.CANCELLED)

    assert found["metadata"]["ownerReferences"][0]["kind"] == "Job"
    left = await region.api.request("GET", "/api/v1/namespaces/gco-jobs/services")
    assert left["items"] == []


async def test_the_log_of_every_job_is_kept_however_short_it_is(region):
    """The feed of pods may tell later than that of Jobs that something has run."""
    await region.dispatcher()
    await region.observer()

    heads = [await region.submit(manifest=job(f"short-{number}", duration=0)) for number in range(30)]
    done = [await region.until(head.id, State.SUCCEEDED, seconds=40) for head in heads]

    assert {head.message for head in done} == {"logs kept: 1 container"}


async def test_a_job_that_finds_no_place_says_why_once(region, monkeypatch):
    monkeypatch.setattr("shared.jobs.observation.PLACELESS_AFTER", timedelta(seconds=0.3))
    await region.dispatcher()
    await region.observer()
    nowhere = job(hang="true")
    nowhere["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "nowhere"}

    head = await region.submit(manifest=nowhere)
    async with asyncio.timeout(20):
        while (found := await region.head(head.id)).reason != "unschedulable":
            await asyncio.sleep(0.05)

    assert found.state is State.PENDING
    assert "nodes are available" in found.message
    assert [event.type for event in await region.events(head.id)].count(EventType.UNSCHEDULABLE) == 1


async def test_a_failed_job_tells_the_exit_code_of_its_container(region):
    await region.dispatcher()
    await region.observer()

    head = await region.submit(manifest=job(exit_code="42"))
    done = await region.until(head.id, State.FAILED)

    assert "container main of pod" in done.message
    assert "exited with 42" in done.message

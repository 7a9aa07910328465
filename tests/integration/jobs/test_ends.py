"""Ends as a cluster tells them: each is seen, told once, and told as what it was."""

import asyncio
from datetime import UTC, datetime

from shared.jobs.model import EventType
from shared.jobs.states import State
from tests.integration.jobs.breaking import counted, gapless
from tests.integration.region import job

ENDS = (EventType.SUCCEEDED, EventType.FAILED, EventType.CANCELLED)


async def later_one_ends(region):
    """Another job comes and ends after all that happened before, so that an observer has seen that too."""
    after = await region.submit(manifest=job("after", duration=0.01))
    await region.until(after.id, State.SUCCEEDED)


async def test_a_failure_whose_pod_and_job_go_at_once_is_told_once(region):
    """Case 8: the watch says Failed and the pod is deleted in the same second."""
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(duration=0.3, exit_code="3"))
    await region.until(head.id, State.PENDING, State.RUNNING)
    name = (await region.head(head.id)).object.name
    path = f"/apis/batch/v1/namespaces/gco-jobs/jobs/{name}"

    async with asyncio.timeout(10):
        while not (await region.api.request("GET", path))["status"].get("failed"):
            await asyncio.sleep(0.01)
    for pod in (await region.api.request("GET", "/api/v1/namespaces/gco-jobs/pods"))["items"]:
        await region.api.request("DELETE", f"/api/v1/namespaces/gco-jobs/pods/{pod['metadata']['name']}")
    done = await region.until(head.id, State.FAILED)
    await region.api.request("DELETE", path, body={"propagationPolicy": "Background"})
    await later_one_ends(region)

    events = await region.events(head.id)
    assert done.reason == "BackoffLimitExceeded"
    assert await region.head(head.id) == done
    assert sum(counted(events)[end] for end in ENDS) == 1
    assert gapless(events)


async def test_a_failure_is_told_once_by_two_observers(region):
    """Case 8, with a second observer: one won transition, one event."""
    await region.dispatcher()
    await region.observer()
    await region.observer()
    heads = [await region.submit(manifest=job(f"job-{number}", exit_code="1")) for number in range(5)]

    await asyncio.gather(*(region.until(head.id, State.FAILED) for head in heads))
    await later_one_ends(region)

    for head in heads:
        events = await region.events(head.id)
        assert gapless(events)
        assert sum(counted(events)[end] for end in ENDS) == 1


async def test_a_pod_that_fails_within_its_backoff_limit_is_no_failure(region):
    """Case 9: a pod failure inside `backoffLimit`, later success: no failure is told, one success is."""
    await region.dispatcher()
    await region.observer()

    head = await region.submit(manifest=job(backoff_limit=3, exit_code="1,1,0"))
    done = await region.until(head.id, State.SUCCEEDED, State.FAILED)

    told = counted(await region.events(head.id))
    assert (done.state, done.execution, done.attempts) == (State.SUCCEEDED, 1, 0)
    assert len(region.starts(head.id)) == 3
    assert told[EventType.SUCCEEDED] == 1
    assert told[EventType.FAILED] == told[EventType.RETRY] == told[EventType.INTERRUPTED] == 0


async def test_a_job_whose_owner_deletes_it_on_the_cluster_has_failed(region):
    """Case 12: deleted with kubectl while it runs: failed, `deleted on the cluster`, not succeeded, and not run again."""
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true"))
    running = await region.until(head.id, State.RUNNING)

    path = f"/apis/batch/v1/namespaces/gco-jobs/jobs/{running.object.name}"
    await region.api.request("DELETE", path, body={"propagationPolicy": "Background"})
    done = await region.until(head.id, State.SUCCEEDED, State.FAILED)
    await later_one_ends(region)

    assert (done.state, done.reason) == (State.FAILED, "deleted on the cluster")
    assert running.object.uid in done.message
    assert len(region.starts(head.id)) == 1


async def test_jobs_that_end_in_the_same_second_are_all_told_within_seconds(region):
    """Case 13: 25 jobs that end in the same second, while 60 run for hours and one more ends beside them."""
    await region.dispatcher()
    await region.observer()
    long = [await region.submit(manifest=job(f"long-{number}", hang="true")) for number in range(60)]
    await asyncio.gather(*(region.until(head.id, State.RUNNING, seconds=30) for head in long))

    lone = await region.submit(manifest=job("lone", duration=0.2))
    heads = await asyncio.gather(*(region.submit(manifest=job(f"short-{number}", hang="true")) for number in range(25)))
    running = await asyncio.gather(*(region.until(head.id, State.RUNNING, seconds=30) for head in heads))
    await asyncio.gather(*(region.api.request("PATCH", **completion(head.object.name)) for head in running))
    ends = await asyncio.gather(*(region.until(head.id, State.SUCCEEDED, seconds=10) for head in (lone, *heads)))

    for head in ends:
        told = (await region.events(head.id))[-1]
        assert (told.at - head.finished_at).total_seconds() < 5
    assert {head.state for head in (await region.core.store.heads([one.id for one in long])).values()} == {State.RUNNING}


def completion(name):
    """A patch that ends a Job well, whatever its pods do: several Jobs can so end at one moment."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": now}
    return {
        "path": f"/apis/batch/v1/namespaces/gco-jobs/jobs/{name}/status",
        "body": {"status": {"conditions": [condition]}},
        "content_type": "application/merge-patch+json",
    }

"""Pods that outlive their Job: nobody waits for them but their own job, and those that were left to nobody are deleted."""

import asyncio

from shared.jobs.model import EventType, RetryPolicy
from shared.jobs.states import State
from tests.integration.jobs.breaking import counted, gapless
from tests.integration.region import job

JOBS, PODS = "/apis/batch/v1/namespaces/gco-jobs/jobs", "/api/v1/namespaces/gco-jobs/pods"
MANY = 70
"""More than an observer handles facts at a time."""


async def runs(region, **options):
    head = await region.submit(manifest=job(hang="true"), **options)
    return await region.until(head.id, State.RUNNING)


async def delete(region, head, policy):
    """`kubectl delete job --cascade=…`"""
    await region.api.request("DELETE", f"{JOBS}/{head.object.name}", body={"propagationPolicy": policy})


async def pods(region, head):
    selector = f"gpufleet.io/job-id={head.id}"
    return (await region.api.request("GET", PODS, query={"labelSelector": selector}))["items"]


async def end_beside(region, heads):
    """Another job ends while nothing of these has; it must be told within seconds."""
    lone = await region.submit(manifest=job("lone", duration=0.3))
    done = await region.until(lone.id, State.SUCCEEDED, seconds=10)
    assert ((await region.events(lone.id))[-1].at - done.finished_at).total_seconds() < 5
    assert {head.state for head in (await region.core.store.heads([one.id for one in heads])).values()} == {State.RUNNING}


async def test_a_job_that_is_deleted_without_its_pods_fails_and_its_pods_are_deleted(region):
    """Case 12, with `--cascade=orphan`."""
    await region.dispatcher()
    await region.observer()
    running = await runs(region, retry=RetryPolicy(max_attempts=3, backoff_seconds=1))

    await delete(region, running, "Orphan")
    done = await region.until(running.id, State.FAILED, State.SUCCEEDED, State.QUEUED, seconds=10)

    events = await region.events(running.id)
    assert (done.state, done.reason) == (State.FAILED, "deleted on the cluster")
    assert await pods(region, running) == []
    assert (counted(events)[EventType.FAILED], len(region.starts(running.id))) == (1, 1)
    assert gapless(events)


async def test_a_cancel_of_a_job_that_was_deleted_without_its_pods_is_carried_out(region):
    await region.dispatcher()
    running = await runs_unobserved(region)
    await delete(region, running, "Orphan")
    await region.cancel(running.id)

    await region.observer()
    done = await region.until(running.id, State.FAILED, State.CANCELLED, seconds=10)

    assert done.state is State.CANCELLED
    assert await pods(region, running) == []


async def runs_unobserved(region):
    """A job that runs on the cluster, of which no observer has told yet."""
    head = await region.submit(manifest=job(hang="true"))
    await region.until_true(lambda: region.starts(head.id))
    return await region.head(head.id)


async def test_a_cancel_that_waits_for_the_pods_of_a_job_without_them_is_carried_out(region):
    """The observer has seen to the pods already, and they take their time."""
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true", termination=3))
    running = await region.until(head.id, State.RUNNING)

    await delete(region, running, "Orphan")
    await region.until_true(lambda: region.cluster.request("GET", PODS, {}, {}, None).body.count(b"deletionTimestamp"))
    await region.cancel(running.id)
    done = await region.until(running.id, State.FAILED, State.CANCELLED, seconds=15)

    assert done.state is State.CANCELLED
    assert await pods(region, running) == []


async def test_an_observer_that_starts_anew_finds_pods_that_were_left(region):
    await region.dispatcher()
    first = await region.observer()
    running = await runs(region)
    await first.kill()
    await delete(region, running, "Orphan")

    await region.observer()
    done = await region.until(running.id, State.FAILED, seconds=10)

    assert done.reason == "deleted on the cluster"
    assert await pods(region, running) == []


async def test_pods_that_take_long_to_go_hold_up_no_other_job(region):
    """Case 13: more jobs than are handled at a time are deleted in the background, and their pods take their grace period."""
    await region.dispatcher()
    await region.observer()
    heads = [await region.submit(manifest=job(f"long-{number}", hang="true", termination=30)) for number in range(MANY)]
    running = await asyncio.gather(*(region.until(head.id, State.RUNNING, seconds=60) for head in heads))

    await asyncio.gather(*(delete(region, head, "Background") for head in running))
    await end_beside(region, heads)


async def test_pods_that_nobody_may_delete_hold_up_no_other_job(region):
    """The same with pods that were left to nobody and that the observer may not delete: until it may."""
    await region.dispatcher()
    await region.observer()
    heads = [await region.submit(manifest=job(f"long-{number}", hang="true")) for number in range(MANY)]
    running = await asyncio.gather(*(region.until(head.id, State.RUNNING, seconds=60) for head in heads))

    region.fault(method="DELETE", path="/pods/", status=403, times=100_000)
    await asyncio.gather(*(delete(region, head, "Orphan") for head in running))
    await end_beside(region, heads)

    region.server.faults.clear()
    ends = await asyncio.gather(*(region.until(head.id, State.FAILED, seconds=30) for head in heads))
    assert {head.reason for head in ends} == {"deleted on the cluster"}
    assert (await region.api.request("GET", PODS, query={"fieldSelector": "status.phase=Running"}))["items"] == []

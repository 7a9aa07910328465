"""Watches that break in every way: list again, miss nothing."""

import asyncio
from collections import Counter

from shared.jobs.model import EventType
from shared.jobs.states import State
from tests.integration.jobs.breaking import counted
from tests.integration.region import job

JOBS, PODS = "/apis/batch/v1/jobs$", "/api/v1/pods$"


def counted_lists(region):
    """How often each kind is listed from now on: watches go another way."""
    lists, request = Counter(), region.api.request

    async def noting(method, path, **options):
        lists[f"{path}$"] += method == "GET"
        return await request(method, path, **options)

    region.api.request = noting
    return lists


async def test_ends_are_seen_through_watches_that_are_gone_and_watches_that_are_empty(region):
    """Case 11: the watch answers 410 inside a 200, then 200 with an empty body, again and again: after each of them all is listed again."""
    lists = counted_lists(region)
    for path in (JOBS, PODS):
        for action in ("watch_gone", "watch_empty", "watch_gone", "watch_empty"):
            region.fault(path=path, action=action)
    await region.dispatcher()
    await region.observer()

    heads = [await region.submit(manifest=job(f"job-{number}", exit_code=str(number % 2))) for number in range(10)]
    done = await asyncio.gather(*(region.until(head.id, State.SUCCEEDED, State.FAILED) for head in heads))
    await region.until_true(lambda: not region.server.faults.waiting)

    await region.until_true(lambda: min(lists[JOBS], lists[PODS]) >= 5)
    assert [head.state for head in done] == [State.SUCCEEDED, State.FAILED] * 5
    assert all(len(region.starts(head.id)) == 1 for head in heads)


async def test_a_history_that_was_compacted_is_listed_again(region):
    """Case 11: etcd forgets while the watch is away."""
    await region.dispatcher()
    region.fault(path=JOBS, action="delay", delay=0.5)
    region.fault(path=JOBS, action="watch_empty")
    await region.observer()
    head = await region.submit(manifest=job(duration=0.1))

    await region.until_true(lambda: region.starts(head.id))
    region.cluster.compact()
    done = await region.until(head.id, State.SUCCEEDED)

    assert done.execution == 1


async def test_a_job_that_was_deleted_while_no_watch_stood_is_missed_by_nobody(region):
    """Case 11: what is not on the new list has been deleted."""
    await region.dispatcher()
    observer = await region.observer()
    head = await region.submit(manifest=job(hang="true"))
    running = await region.until(head.id, State.RUNNING)
    await observer.stop()

    path = f"/apis/batch/v1/namespaces/gco-jobs/jobs/{running.object.name}"
    await region.api.request("DELETE", path, body={"propagationPolicy": "Background"})
    region.fault(path=JOBS, action="watch_gone")
    region.fault(path=JOBS, action="watch_empty")
    await region.observer()
    done = await region.until(head.id, State.FAILED)

    assert done.reason == "deleted on the cluster"
    assert counted(await region.events(head.id))[EventType.FAILED] == 1

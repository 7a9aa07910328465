"""Jobs that are deleted through the API: by UID, with their pods, and those of the queue end as cancelled."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shared.clusters.job_status import finished
from shared.clusters.kept_logs import read_kept
from shared.errors import ConflictError, NotFoundError
from shared.identity.callers import LOCAL
from shared.jobs import stopping, transitions
from shared.jobs.model import EventType
from shared.jobs.states import State
from tests.integration.api.cluster_jobs import JOBS, NAMESPACE, OBJECTS, make
from tests.integration.jobs.breaking import Held
from tests.integration.region import job, running_region
from workers.api.gco.deleting import delete_job

ENDS = tuple(state for state in State if state.terminal)


@pytest.fixture
async def region(fleet_resources, tmp_path):
    """Its workers can be killed as SIGKILL kills."""
    async with running_region(fleet_resources, tmp_path, lease_seconds=3.0, shutdown_seconds=0.001) as found:
        yield found


@pytest.fixture
def short_waits(monkeypatch):
    """A stop is tried again after a second, for which its end is left to the observer."""
    monkeypatch.setattr(transitions, "STOP_RETRY", timedelta(seconds=1))
    monkeypatch.setattr(stopping, "OBSERVER_SECONDS", 1.0)


@pytest.fixture
async def core(cluster_core):
    return cluster_core


async def running(region, **steering):
    """A job of the queue that runs, its object's name and UID."""
    head = await region.submit(manifest=job(**({"hang": "true"} | steering)))
    head = await region.until(head.id, State.RUNNING)
    return head.id, head.object.name, head.object.uid


async def test_a_job_of_the_queue_ends_as_cancelled(core, region):
    await region.dispatcher()
    await region.observer()
    job_id, name, uid = await running(region)

    assert (await delete_job(core, LOCAL, NAMESPACE, name)).uid == uid

    head = await region.until(job_id, *ENDS)
    assert (head.state, head.reason) == (State.CANCELLED, "deleted through the API")
    assert (await region.events(job_id))[-1].by == "local"
    assert await region.objects() == []


@pytest.mark.parametrize("worker", ["dispatcher", "observer"])
async def test_one_worker_is_enough_to_tell_the_end(core, region, worker, short_waits):
    dispatcher, observer = await region.dispatcher(), await region.observer()
    job_id, name, _ = await running(region)
    await (observer if worker == "dispatcher" else dispatcher).stop()

    await delete_job(core, LOCAL, NAMESPACE, name)

    head = await region.until(job_id, *ENDS)
    assert head.state is State.CANCELLED


async def test_its_logs_are_kept(core, region):
    await region.dispatcher()
    await region.observer()
    job_id, name, _ = await running(region, logs="hello")

    await delete_job(core, LOCAL, NAMESPACE, name)
    await region.until(job_id, State.CANCELLED)

    kept = await read_kept(core.objects, job_id, 1)
    assert kept is not None
    assert (await core.objects.get(kept.containers[0].key)).endswith(b"hello\n")


@pytest.mark.parametrize("watched", [True, False])
async def test_a_job_whose_dispatcher_died_before_the_commit_ends_as_cancelled(core, region, watched, short_waits):
    """Its object stands suspended, under a claim that nobody gives back; whether or not an observer sees how it goes."""
    held = Held(region.core.store.write, when=is_commit, after=False)
    region.core.store.write = held
    head = await region.submit(manifest=job(hang="true"))
    dispatcher = await region.dispatcher(visibility=1)
    await region.until_true(held.reached.is_set)
    await dispatcher.kill()
    (found,) = await region.objects()
    if watched:
        await region.observer()

    await delete_job(core, LOCAL, NAMESPACE, found["metadata"]["name"])
    if not watched:
        await region.dispatcher("d2", visibility=1)
        await region.sweeper()

    ended = await region.until(head.id, *ENDS)
    assert (ended.state, ended.object) == (State.CANCELLED, None)
    assert region.starts(head.id) == []


async def test_a_dispatcher_that_commits_after_the_deletion_is_refused(core, region):
    write, goes_on, reached = region.core.store.write, asyncio.Event(), asyncio.Event()

    async def late(change):
        if is_commit(change):
            reached.set()
            await goes_on.wait()
        return await write(change)

    region.core.store.write = late
    head = await region.submit(manifest=job(hang="true"))
    await region.dispatcher()
    await region.observer()
    await reached.wait()
    (found,) = await region.objects()

    await delete_job(core, LOCAL, NAMESPACE, found["metadata"]["name"])
    goes_on.set()

    ended = await region.until(head.id, *ENDS)
    assert (ended.state, ended.object) == (State.CANCELLED, None)
    assert await region.objects() == []
    assert region.starts(head.id) == []


def is_commit(change):
    return change.events[-1].type is EventType.COMMITTED


async def test_what_has_ended_on_the_cluster_is_told_as_it_ended(core, region):
    """The observer is behind: the deletion waits for it, and is no cancel."""
    await region.dispatcher()
    observer = await region.observer()
    job_id, name, _ = await running(region, hang="false", duration="0.5", logs="done")
    await observer.stop()
    await until_complete(region, name)

    deleting = asyncio.create_task(delete_job(core, LOCAL, NAMESPACE, name))
    await region.observer()
    await deleting

    assert (await region.head(job_id)).state is State.SUCCEEDED
    assert await region.objects() == []


async def test_what_has_ended_and_nobody_tells_is_cancelled(core, region, monkeypatch, short_waits):
    monkeypatch.setattr("workers.api.gco.deleting.END_SECONDS", 0.3)
    await region.dispatcher()
    observer = await region.observer()
    job_id, name, _ = await running(region, hang="false", duration="0.5")
    await observer.stop()
    await until_complete(region, name)

    await delete_job(core, LOCAL, NAMESPACE, name)

    assert (await region.until(job_id, *ENDS)).state is State.CANCELLED


async def test_an_object_that_is_not_the_job_s_own_ends_nothing(core, region):
    """It carries the marks of another execution, as one does that a stalled dispatcher made too late."""
    await region.dispatcher()
    await region.observer()
    job_id, name, _ = await running(region)
    own = await region.api.request("GET", f"{OBJECTS}/{name}")
    stray = job("stray", hang="true")
    stray["spec"]["suspend"] = True
    stray["metadata"] |= {
        "labels": {"gpufleet.io/managed": "true"},
        "annotations": own["metadata"]["annotations"] | {"gpufleet.io/execution": "7"},
    }
    await region.api.request("POST", OBJECTS, body=stray)

    await delete_job(core, LOCAL, NAMESPACE, "stray")

    assert [one["metadata"]["name"] for one in await region.objects()] == [name]
    head = await region.head(job_id)
    assert (head.state, head.stop) == (State.RUNNING, None)


async def until_complete(region, name):
    async with asyncio.timeout(20):
        while not finished(await region.api.request("GET", f"{OBJECTS}/{name}")):
            await asyncio.sleep(0.05)


async def test_another_uid_is_left_alone(core, region):
    made = await region.api.request("POST", OBJECTS, body=job("mine", hang="true"))
    uid = made["metadata"]["uid"]

    with pytest.raises(ConflictError, match=f"Job 'mine' UID changed; expected 'other', found '{uid}'"):
        await delete_job(core, LOCAL, NAMESPACE, "mine", expected_uid="other")
    assert len(await region.objects()) == 1

    assert (await delete_job(core, LOCAL, NAMESPACE, "mine", expected_uid=uid)).uid == uid
    assert await region.objects() == []


async def test_a_missing_job_is_not_found(core):
    with pytest.raises(NotFoundError, match="Job 'none' not found"):
        await delete_job(core, LOCAL, NAMESPACE, "none")


async def test_a_job_is_deleted_by_name_and_uid(client, region):
    made = await make(region, "a")
    uid = made["metadata"]["uid"]

    other = await client.delete(f"{JOBS}/{NAMESPACE}/a", params={"expected_uid": "other"})
    right = await client.delete(f"{JOBS}/{NAMESPACE}/a", params={"expected_uid": uid})
    again = await client.delete(f"{JOBS}/{NAMESPACE}/a")

    assert (other.status_code, other.json()["detail"]) == (409, f"Job 'a' UID changed; expected 'other', found '{uid}'")
    body = right.json()
    assert (body["job_name"], body["namespace"], body["uid"], body["status"]) == ("a", NAMESPACE, uid, "deleted")
    assert (again.status_code, again.json()["detail"]) == (404, "Job 'a' not found")


async def test_what_can_be_no_name_is_not_found(client, region):
    await make(region, "a")

    for name in ("%2E%2E", "%2E", "a%2Fb", "a%00", "A", "x" * 254):
        answer = await client.delete(f"{JOBS}/{NAMESPACE}/{name}")

        assert answer.status_code in (404, 405), name
    assert len(await region.objects()) == 1

"""Jobs that are deleted through the API: by UID, with their pods, and those of the queue end as cancelled."""

from __future__ import annotations

import pytest

from shared.errors import ConflictError, NotFoundError
from shared.identity.callers import LOCAL
from shared.jobs.states import State
from tests.integration.region import job
from workers.api.cluster_access import ClusterAccess
from workers.api.core import build
from workers.api.gco.deleting import delete_job

NAMESPACE = "gco-jobs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"


@pytest.fixture
async def core(region, tmp_path):
    access = ClusterAccess(region.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"}))
    yield await build(region.settings, region.aws, access=access)
    await access.close()


async def running(region, **steering):
    """A job of the queue that runs, its object's name and UID."""
    head = await region.submit(manifest=job(**({"hang": "true"} | steering)))
    head = await region.until(head.id, State.RUNNING)
    return head.id, head.object.name, head.object.uid


async def test_a_job_of_the_queue_ends_as_cancelled(core, region):
    await region.dispatcher()
    await region.observer()
    job_id, name, uid = await running(region)

    assert await delete_job(core, LOCAL, NAMESPACE, name) == uid

    head = await region.until(job_id, *(state for state in State if state.terminal))
    assert (head.state, head.reason) == (State.CANCELLED, "deleted through the API")
    assert (await region.events(job_id))[-1].by == "local"
    assert await region.objects() == []


@pytest.mark.parametrize("worker", ["dispatcher", "observer"])
async def test_one_worker_is_enough_to_tell_the_end(core, region, worker):
    dispatcher, observer = await region.dispatcher(), await region.observer()
    job_id, name, _ = await running(region)
    await (observer if worker == "dispatcher" else dispatcher).stop()

    await delete_job(core, LOCAL, NAMESPACE, name)

    head = await region.until(job_id, *(state for state in State if state.terminal))
    assert head.state is State.CANCELLED


async def test_another_uid_is_left_alone(core, region):
    made = await region.api.request("POST", JOBS, body=job("mine", hang="true"))
    uid = made["metadata"]["uid"]

    with pytest.raises(ConflictError, match=f"Job 'mine' UID changed; expected 'other', found '{uid}'"):
        await delete_job(core, LOCAL, NAMESPACE, "mine", expected_uid="other")
    assert len(await region.objects()) == 1

    assert await delete_job(core, LOCAL, NAMESPACE, "mine", expected_uid=uid) == uid
    assert await region.objects() == []


async def test_a_missing_job_is_not_found(core):
    with pytest.raises(NotFoundError, match="Job 'none' not found"):
        await delete_job(core, LOCAL, NAMESPACE, "none")

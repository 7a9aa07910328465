"""The release: once for ever, and only of the UID that was committed."""

from datetime import timedelta

import pytest

from shared.clusters.cluster import KubernetesCluster
from shared.clusters.kinds import JOB
from shared.errors import UnavailableError
from shared.jobs.ports import RefusedError
from tests.integration.clusters.builders import AT, JOB_ID, NAMESPACE, bundle
from workers.local.cluster import Fault


@pytest.fixture
async def made(cluster, counting):
    seen = await cluster.create(bundle(hang="true"), JOB_ID, 1, "abc")
    counting.requests.clear()
    return seen


async def test_a_release_is_one_request_that_lets_the_object_run(cluster, made, counting):
    assert await cluster.release(NAMESPACE, made.name, made.uid, AT)
    assert counting.requests == [f"PATCH {made.name}"]
    seen = await cluster.read(NAMESPACE, made.name)
    assert not seen.suspended
    assert seen.released == "2026-05-17T12:00:00.000Z"


async def test_a_second_release_leaves_the_first_as_it_was(cluster, api, made):
    await cluster.release(NAMESPACE, made.name, made.uid, AT)
    await api.request(
        "PATCH", JOB.path(NAMESPACE, made.name), body={"spec": {"suspend": True}}, content_type="application/merge-patch+json"
    )
    assert await cluster.release(NAMESPACE, made.name, made.uid, AT + timedelta(minutes=5))
    seen = await cluster.read(NAMESPACE, made.name)
    assert seen.suspended
    assert seen.released == "2026-05-17T12:00:00.000Z"


async def test_another_uid_is_never_released(cluster, made):
    assert not await cluster.release(NAMESPACE, made.name, "0000", AT)
    assert (await cluster.read(NAMESPACE, made.name)).suspended


async def test_what_is_gone_is_not_released(cluster):
    assert not await cluster.release(NAMESPACE, "nothing", "0000", AT)


@pytest.mark.parametrize("fault", [{"action": "apply_then_answer", "status": 504}, {"action": "apply_then_drop"}])
async def test_a_release_whose_answer_was_lost_is_known_at_the_next_try(cluster, server, made, fault):
    server.faults.add(Fault(method="PATCH", **fault))
    with pytest.raises(UnavailableError):
        await cluster.release(NAMESPACE, made.name, made.uid, AT)
    assert await cluster.release(NAMESPACE, made.name, made.uid, AT + timedelta(minutes=5))
    assert (await cluster.read(NAMESPACE, made.name)).released == "2026-05-17T12:00:00.000Z"


async def test_a_write_at_the_same_time_is_tried_again(cluster, server, made):
    server.faults.add(Fault(method="PATCH", action="answer", status=409))
    with pytest.raises(UnavailableError):
        await cluster.release(NAMESPACE, made.name, made.uid, AT)


async def test_a_change_that_the_server_refuses_is_a_refusal(cluster, server, made):
    server.faults.add(Fault(method="PATCH", action="answer", status=422))
    with pytest.raises(RefusedError):
        await cluster.release(NAMESPACE, made.name, made.uid, AT)


@pytest.mark.parametrize(("asked", "queue"), [(None, "gpus"), ("mine", "mine")])
async def test_where_kueue_admits_the_release_is_its_label(api, counting, asked, queue):
    cluster = KubernetesCluster(api, kueue_queue="gpus")
    made = await cluster.create(bundle(queue=asked), JOB_ID, 1, "abc")
    assert await cluster.release(NAMESPACE, made.name, made.uid, AT)
    assert counting.requests == ["POST jobs", f"PATCH {made.name}"]
    job = await api.request("GET", JOB.path(NAMESPACE, made.name))
    assert job["spec"]["suspend"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == queue


async def test_a_worker_that_did_not_create_the_object_reads_its_queue(api, counting):
    made = await KubernetesCluster(api, kueue_queue="gpus").create(bundle(queue="mine"), JOB_ID, 1, "abc")
    assert await KubernetesCluster(api, kueue_queue="gpus").release(NAMESPACE, made.name, made.uid, AT)
    job = await api.request("GET", JOB.path(NAMESPACE, made.name))
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "mine"


async def test_a_queue_of_what_is_gone_is_not_asked_for(api):
    assert not await KubernetesCluster(api, kueue_queue="gpus").release(NAMESPACE, "nothing", "0000", AT)

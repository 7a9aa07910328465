"""What is asked of the pods of an execution when its object says too little, or is gone."""

import asyncio

import pytest

from shared.clusters import cluster as cluster_module
from shared.clusters.feeds import job_feed, pod_feed
from shared.clusters.kinds import JOB, POD
from shared.clusters.watch import Deleted, Listed
from shared.errors import UnavailableError
from tests.integration.clusters.builders import AT, JOB_ID, NAMESPACE, bundle, ended, runs, until
from workers.local.cluster import Fault


async def released(cluster, **plan):
    made = await cluster.create(bundle(**plan), JOB_ID, 1, "abc")
    await cluster.release(NAMESPACE, made.name, made.uid, AT)
    return made


async def test_an_undisturbed_job_has_no_disruption(cluster):
    made = await cluster.create(bundle(), JOB_ID, 1, "abc")
    assert await cluster.disruption(NAMESPACE, made.name) is None


async def test_a_disruption_is_found_on_any_page(cluster, api, monkeypatch):
    monkeypatch.setattr(cluster_module, "PAGE", "1")
    made = await released(cluster, hang="true", parallelism=3)
    async with asyncio.timeout(10):
        await until(pod_feed(api), runs)
    names = sorted(pod["metadata"]["name"] for pod in (await api.request("GET", POD.path(NAMESPACE)))["items"])
    assert len(names) == 3
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": names[-1], "namespace": NAMESPACE}}
    await api.request("POST", f"{POD.path(NAMESPACE, names[-1])}/eviction", body=eviction)
    assert "EvictionByEvictionAPI" in await cluster.disruption(NAMESPACE, made.name)


async def test_pods_that_run_are_left_even_when_their_object_is_gone(cluster, api):
    made = await released(cluster, hang="true")
    async with asyncio.timeout(10):
        await until(pod_feed(api), runs)
        assert await cluster.pods_left(NAMESPACE, JOB_ID, 1)
        await api.request("DELETE", JOB.path(NAMESPACE, made.name), query={"propagationPolicy": "Orphan"})
        await until(job_feed(api), lambda item: item == Listed(objects=[]) or isinstance(item, Deleted))
    assert await cluster.pods_left(NAMESPACE, JOB_ID, 1)
    assert not await cluster.pods_left(NAMESPACE, JOB_ID, 2)


async def test_pods_that_have_ended_are_not_left(cluster, api):
    await released(cluster, duration="0.02")
    async with asyncio.timeout(10):
        await until(job_feed(api), ended)
    assert len((await api.request("GET", POD.path(NAMESPACE)))["items"]) == 1
    assert not await cluster.pods_left(NAMESPACE, JOB_ID, 1)


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_not_being_told_is_no_answer(cluster, server, status):
    for _ in range(2):
        server.faults.add(Fault(method="GET", path="/pods$", action="answer", status=status))
    with pytest.raises(UnavailableError):
        await cluster.pods_left(NAMESPACE, JOB_ID, 1)
    with pytest.raises(UnavailableError):
        await cluster.disruption(NAMESPACE, "train")


async def test_a_namespace_that_is_gone_has_no_pods(cluster, server):
    for _ in range(2):
        server.faults.add(Fault(method="GET", path="/pods$", action="answer", status=404))
    assert not await cluster.pods_left("gone", JOB_ID, 1)
    assert await cluster.disruption("gone", "train") is None


async def orphaned(cluster, api, **plan):
    """An object that was deleted without its pod, which runs on."""
    made = await released(cluster, hang="true", **plan)
    async with asyncio.timeout(10):
        await until(pod_feed(api), runs)
        await api.request("DELETE", JOB.path(NAMESPACE, made.name), body={"propagationPolicy": "Orphan"})
        await until(job_feed(api), lambda item: item == Listed(objects=[]) or isinstance(item, Deleted))
    return made


async def pods(api):
    return (await api.request("GET", POD.path(NAMESPACE)))["items"]


async def cleared(cluster, uid):
    async with asyncio.timeout(10):
        while not await cluster.clear_pods(NAMESPACE, JOB_ID, 1, uid):
            await asyncio.sleep(0.02)


async def test_pods_that_an_object_left_to_nobody_are_deleted(cluster, api):
    made = await orphaned(cluster, api, parallelism=3)
    assert not await cluster.clear_pods(NAMESPACE, JOB_ID, 1, made.uid)
    assert all(pod["metadata"]["deletionTimestamp"] for pod in await pods(api))
    await cleared(cluster, made.uid)
    assert await pods(api) == []


async def test_a_pod_that_is_going_is_waited_for_and_not_deleted_again(cluster, api, server):
    made = await orphaned(cluster, api)
    await cluster.clear_pods(NAMESPACE, JOB_ID, 1, made.uid)
    server.faults.add(Fault(method="DELETE", action="answer", status=500, times=100))
    await cleared(cluster, made.uid)


async def test_pods_of_an_object_that_stands_are_left_to_it(cluster, api):
    made = await released(cluster, hang="true")
    async with asyncio.timeout(10):
        await until(pod_feed(api), runs)
    assert not await cluster.clear_pods(NAMESPACE, JOB_ID, 1, made.uid)
    (pod,) = await pods(api)
    assert "deletionTimestamp" not in pod["metadata"]


async def another_owner(api):
    """What a pod says that somebody has taken over."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": NAMESPACE}}
    made = await api.request("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", body=owner)
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": made["metadata"]["uid"]}]}


async def another_job(api):
    """What a pod says that was made for another Job."""
    return {"labels": {"batch.kubernetes.io/controller-uid": "00000000-0000-0000-0000-000000000000"}}


@pytest.mark.parametrize("change", [another_owner, another_job])
async def test_a_pod_of_somebody_else_is_waited_for(cluster, api, change):
    made = await orphaned(cluster, api)
    (pod,) = await pods(api)
    body, path = {"metadata": await change(api)}, POD.path(NAMESPACE, pod["metadata"]["name"])
    await api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    assert not await cluster.clear_pods(NAMESPACE, JOB_ID, 1, made.uid)
    (left,) = await pods(api)
    assert "deletionTimestamp" not in left["metadata"]


async def test_pods_of_another_execution_are_not_asked_for(cluster, api):
    made = await orphaned(cluster, api)
    assert await cluster.clear_pods(NAMESPACE, JOB_ID, 2, made.uid)
    (left,) = await pods(api)
    assert "deletionTimestamp" not in left["metadata"]


@pytest.mark.parametrize("status", [403, 500])
async def test_a_pod_that_may_not_be_deleted_is_tried_again(cluster, api, server, status):
    made = await orphaned(cluster, api)
    server.faults.add(Fault(method="DELETE", path="/pods/", action="answer", status=status))
    with pytest.raises(UnavailableError):
        await cluster.clear_pods(NAMESPACE, JOB_ID, 1, made.uid)


@pytest.mark.parametrize("status", [404, 409])
async def test_a_pod_that_has_gone_or_changed_is_for_the_next_look(cluster, api, server, status):
    made = await orphaned(cluster, api)
    server.faults.add(Fault(method="DELETE", path="/pods/", action="answer", status=status))
    assert not await cluster.clear_pods(NAMESPACE, JOB_ID, 1, made.uid)
    await cleared(cluster, made.uid)

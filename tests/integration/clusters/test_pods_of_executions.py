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

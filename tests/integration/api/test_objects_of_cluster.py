"""Objects of a cluster, each by its kind and name: how the API shows and deletes them, and those of the queue."""

from __future__ import annotations

import asyncio

import pytest

from shared.jobs.states import State
from tests.integration.api.manifests import JOBS, MANIFESTS, NAMESPACE, config, finished, submit
from tests.integration.region import job


@pytest.fixture
async def core(cluster_core):
    return cluster_core


async def test_an_object_is_shown_without_bookkeeping(client, region):
    await submit(client, config(), job("train"))
    await finished(region, "train")

    found = (await client.get(f"{MANIFESTS}/{NAMESPACE}/train", params={"api_version": "batch/v1", "kind": "Job"})).json()
    data = (await client.get(f"{MANIFESTS}/{NAMESPACE}/settings", params={"api_version": "v1", "kind": "ConfigMap"})).json()

    resource = found["resource"]
    assert (resource["exists"], resource["kind"], resource["api_version"]) == (True, "Job", "batch/v1")
    assert resource["status"]["succeeded"] == 1
    assert resource["spec"]["backoffLimit"] == 0
    assert "managedFields" not in resource["metadata"]
    assert (data["resource"]["data"], data["resource"]["spec"]) == ({"a": "1"}, {})


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"api_version": "v1", "kind": "ConfigMap"}, 404, "ConfigMap 'none' not found"),
        ({"api_version": "v1", "kind": "Secret"}, 403, "Resource kind 'Secret' is not allowed. Allowed kinds: ["),
        ({"api_version": "v2", "kind": "ConfigMap"}, 403, "API version 'v2' is not allowed for kind 'ConfigMap'. Allowed versions: ['v1']"),
        ({"api_version": "batch/v1", "kind": "Job"}, 404, "Job 'none' not found"),
    ],
)
async def test_what_is_not_there_or_not_allowed(client, query, code, words):
    for method in ("GET", "DELETE"):
        answer = await client.request(method, f"{MANIFESTS}/{NAMESPACE}/none", params=query)
        assert answer.status_code == code
        assert words in answer.json()["detail"]


async def test_a_job_is_deleted_with_its_pods(client, region):
    await submit(client, job("train", hang="true"))

    async def running():
        while not (await region.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]:
            await asyncio.sleep(0.02)

    await asyncio.wait_for(running(), 20)
    answer = await client.delete(f"{MANIFESTS}/{NAMESPACE}/train", params={"api_version": "batch/v1", "kind": "Job"})

    assert answer.status_code == 200
    assert (answer.json()["success"], answer.json()["resource"]["status"]) == (True, "deleted")
    assert await region.objects() == []

    async def gone():
        pods = (await region.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]
        while any("deletionTimestamp" not in pod["metadata"] for pod in pods):
            await asyncio.sleep(0.02)
            pods = (await region.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]

    await asyncio.wait_for(gone(), 20)


async def test_what_a_job_of_the_queue_needs_is_not_deleted_before_its_end(client, region):
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true"), supporting=[config("shared")])
    head = await region.until(head.id, State.RUNNING)
    query = {"api_version": "v1", "kind": "ConfigMap"}

    refused = await client.delete(f"{MANIFESTS}/{NAMESPACE}/shared", params=query)
    stopped = await client.delete(f"{MANIFESTS}/{NAMESPACE}/{head.object.name}", params={"api_version": "batch/v1", "kind": "Job"})
    head = await region.until(head.id, State.CANCELLED)

    assert (refused.status_code, stopped.status_code) == (409, 200)
    assert head.id in refused.json()["detail"]


async def test_a_job_that_its_owner_deletes_with_kubectl_has_failed(client, region):
    """Case 12, seen through the API."""
    await region.dispatcher()
    await region.observer()
    answer = await client.post("/api/v1/queue/jobs", json={"manifest": job(hang="true"), "target_region": "us-east-1"})
    job_id = answer.json()["job"]["job_id"]
    head = await region.until(job_id, State.RUNNING)
    await region.api.request("DELETE", f"{JOBS}/{head.object.name}", query={"propagationPolicy": "Background"})
    await region.until(job_id, State.FAILED)

    told = (await client.get(f"/api/v1/queue/jobs/{job_id}")).json()["job"]

    assert told["status"] == "failed"
    assert "deleted on the cluster" in told["error_message"]

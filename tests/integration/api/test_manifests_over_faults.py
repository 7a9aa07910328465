"""Manifests that a cluster refuses, answers late or not at all: what was done is told, and done once."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.api.conftest import serving
from tests.integration.api.manifests import CONFIG_MAPS, JOBS, MANIFESTS, NAMESPACE, config, finished, service, statuses, submit
from tests.integration.region import job


@pytest.fixture
async def core(cluster_core):
    return cluster_core


async def test_when_the_cluster_refuses_one_nothing_is_applied(client, region):
    region.fault(method="PATCH", path="/services/", status=422)

    code, body = await submit(client, config(), service(), job())

    assert code == 400
    assert body["success"] is False
    assert [status for _, _, status in statuses(body)] == ["skipped", "failed", "skipped"]
    assert body["summary"]["failed"] == 1
    assert body["errors"] == ["Service gco-jobs/peers: a fault was injected here"]
    assert (body["detail"], len(body["request_id"])) == (body["errors"][0], 32)
    assert await region.objects() == []


async def test_a_failure_has_what_every_error_has(client, region):
    """The first of the failures is the detail; the request's id is that of its header, and a success has neither."""
    for path in ("/services/", "/configmaps/"):
        region.fault(method="PATCH", path=path, status=422)
    failed = await client.post(MANIFESTS, json={"manifests": [service(), config()]})
    fine = await client.post(MANIFESTS, json={"manifests": [job()]})

    assert (failed.status_code, fine.status_code) == (400, 200)
    assert failed.json()["detail"] == "Service gco-jobs/peers: a fault was injected here (and 1 more)"
    assert failed.json()["request_id"] == failed.headers["x-request-id"]
    assert failed.json().keys() - fine.json().keys() == {"detail", "request_id"}


async def test_what_was_applied_before_a_failure_is_told(client, region):
    region.fault(method="PATCH", path="/services/", status=422, after=1)

    code, body = await submit(client, config(), service(), job())

    assert code == 400
    assert [status for _, _, status in statuses(body)] == ["created", "failed", "skipped"]
    assert await region.objects() == []
    assert (await region.api.request("GET", f"{CONFIG_MAPS}/settings"))["metadata"]["uid"] == body["resources"][0]["uid"]


@pytest.mark.parametrize("fault", [{"action": "apply_then_answer", "status": 504}, {"action": "apply_then_drop"}, {"action": "drop"}])
async def test_a_job_whose_answer_is_lost_is_created_once(client, region, fault):
    region.fault(method="POST", path="/jobs", after=1, **fault)

    code, body = await submit(client, job("train", hang="true"))

    assert (code, statuses(body)) == (200, [("Job", "train", "created")])
    [standing] = await region.objects()
    assert standing["metadata"]["uid"] == body["resources"][0]["uid"]


@pytest.mark.parametrize("fault", [{"action": "apply_then_answer", "status": 504}, {"action": "apply_then_drop"}, {"action": "drop"}])
async def test_an_apply_whose_answer_is_lost_tells_what_it_did(client, region, fault):
    await submit(client, config("changed"), config("same"))
    for name in ("new", "changed", "same"):
        region.fault(method="PATCH", path=f"/configmaps/{name}$", after=1, **fault)

    code, body = await submit(client, config("new"), config("changed", b="2"), config("same"))

    assert code == 200
    assert [status for _, _, status in statuses(body)] == ["created", "updated", "unchanged"]


async def test_a_throttled_request_is_made_again(client, region):
    for path in ("/configmaps", "/jobs"):
        region.fault(path=path, status=429, retry_after=0, times=3)

    code, body = await submit(client, config(), job("train"))

    assert (code, body["summary"]["created"]) == (200, 2)


async def test_an_object_that_changes_in_between_is_looked_at_again(client, region, core):
    """The conflict of a status that a controller writes between the look and the apply."""
    await submit(client, config())
    region.fault(method="PATCH", path="/configmaps/", status=409, times=2)

    code, body = await submit(client, config(b="2"))

    assert (code, statuses(body)) == (200, [("ConfigMap", "settings", "updated")])


async def test_a_kind_that_the_cluster_lacks_is_a_refusal_that_says_so(region, core):
    train = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "t"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 1}},
    }
    async with serving(core) as client:
        code, body = await submit(client, train)

    assert (code, statuses(body)) == (400, [("TrainJob", "t", "failed")])
    assert "doesn't know TrainJob" in body["errors"][0]


async def test_a_job_that_loses_its_machine_has_not_failed(client, region):
    """Case 24, of a Job that is applied directly: the default policy lets the loss cost no attempt."""
    await submit(client, job("train", duration=1.0, backoff_limit=0))
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    async def running():
        while not (found := [pod for pod in (await region.api.request("GET", pods))["items"] if pod["status"]["phase"] == "Running"]):
            await asyncio.sleep(0.02)
        return found[0]

    first = await asyncio.wait_for(running(), 20)
    region.cluster.interrupt_node(first["spec"]["nodeName"])
    await finished(region, "train")

    conditions = (await region.api.request("GET", f"{JOBS}/train"))["status"]["conditions"]
    assert {one["type"] for one in conditions} >= {"Complete"}
    assert len({start.pod_name for start in region.cluster.started}) == 2

"""Jobs that are made of templates on a cluster: with their parameters filled in, and held to the policy as all others."""

from __future__ import annotations

from tests.integration.api.conftest import manifest
from tests.integration.api.templates import FROM_TEMPLATE, SPEC, create, places
from tests.integration.region import job


async def test_a_job_is_made_of_a_template(cluster_client, region):
    wanted = job(hang="true") | {"metadata": {"labels": None, "name": "other"}}
    wanted["spec"] |= {"parallelism": "{{n}}", "completions": "{{n}}"}
    wanted["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "{{text}}"}, {"name": "N", "value": "{{n}}"}]
    await create(cluster_client, manifest=wanted, parameters={"n": 2, "text": "default"})
    hostile = 'x","hostNetwork":true,"z":"y'

    answer = await cluster_client.post(f"{FROM_TEMPLATE}/train", json={"name": "mine", "parameters": {"text": hostile}})
    [made] = await region.objects()

    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert body.keys() >= {
        "cluster_id",
        "region",
        "timestamp",
        "template",
        "job_name",
        "namespace",
        "success",
        "parameters_applied",
        "errors",
    }
    assert (body["template"], body["job_name"], body["namespace"], body["success"], body["errors"]) == (
        "train",
        "mine",
        "gco-jobs",
        True,
        None,
    )
    assert body["parameters_applied"] == {"n": 2, "text": hostile, "name": "mine"}
    assert body["uid"] == made["metadata"]["uid"]
    assert made["metadata"]["labels"]["gco.io/template"] == "train"
    assert made["metadata"]["annotations"]["gpufleet.io/template"] == "train@1"
    assert made["spec"]["parallelism"] == 2
    assert made["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": hostile}, {"name": "N", "value": "2"}]
    assert "hostNetwork" not in made["spec"]["template"]["spec"]


async def test_what_the_cluster_refuses_is_told_as_every_error(cluster_client, region):
    await create(cluster_client, manifest=job(hang="true"), parameters={})
    region.fault(method="POST", path="/jobs", status=422)
    answer = await cluster_client.post(f"{FROM_TEMPLATE}/train", json={"name": "mine"})
    body = answer.json()

    assert (answer.status_code, body["success"], body["job_name"]) == (400, False, "mine")
    assert [body["detail"]] == body["errors"] == ["Job gco-jobs/mine: a fault was injected here"]
    assert body["request_id"] == answer.headers["x-request-id"]


async def test_an_active_job_of_the_name_is_a_conflict(cluster_client):
    await create(cluster_client, manifest=job(hang="true"), parameters={})
    await cluster_client.post(f"{FROM_TEMPLATE}/train", json={"name": "mine"})
    again = await cluster_client.post(f"{FROM_TEMPLATE}/train", json={"name": "mine"})

    assert again.status_code == 409
    assert "gco-jobs/mine" in again.json()["detail"]


async def test_parameters_and_policy_are_told_at_once(cluster_client, region):
    bad = manifest(image="{{image}}", args=["--x={{x}}", "{{y}}"])
    await create(cluster_client, manifest=bad, parameters={})

    body = {"name": "Bad_Name", "parameters": {"x": {}, "z": 1, "image": "evil/miner"}}
    assert places(await cluster_client.post(f"{FROM_TEMPLATE}/train", json=body)) == [
        "/parameters/x",
        "/parameters/y",
        "/parameters/z",
        "/name",
        f"{SPEC}/containers/0/image",
    ]
    body = {"name": "mine", "parameters": {"x": 1, "y": "a", "image": "evil/miner"}}
    assert places(await cluster_client.post(f"{FROM_TEMPLATE}/train", json=body)) == [f"{SPEC}/containers/0/image"]
    body = {"name": "Bad_Name", "parameters": {"x": 1, "y": "a", "image": "pytorch/pytorch"}}
    assert places(await cluster_client.post(f"{FROM_TEMPLATE}/train", json=body)) == ["/name"]
    body = {"name": 5, "namespace": "kube-system", "parameters": {"x": 1, "z": 1, "image": "evil/miner"}, "surplus": 1}
    assert places(await cluster_client.post(f"{FROM_TEMPLATE}/train", json=body)) == [
        "/name",
        "/surplus",
        "/parameters/y",
        "/parameters/z",
        f"{SPEC}/containers/0/image",
        "/namespace",
    ]
    body = {"name": "mine", "surplus": 1, "parameters": {"x": 1, "y": "", "image": "evil/miner"}}
    assert places(await cluster_client.post(f"{FROM_TEMPLATE}/train", json=body)) == ["/surplus", f"{SPEC}/containers/0/image"]
    assert await region.objects() == []


async def test_the_same_words_as_every_other_way_in(cluster_client):
    await create(cluster_client, manifest=manifest(image="{{image}}"), parameters={})
    queue = await cluster_client.post("/api/v1/queue/jobs", json={"target_region": "any", "manifest": manifest(image="evil/miner")})
    made = await cluster_client.post(f"{FROM_TEMPLATE}/train", json={"name": "mine", "parameters": {"image": "evil/miner"}})

    told = [one | {"msg": one["msg"].removesuffix(" (from the parameter 'image')")} for one in made.json()["detail"]]
    assert told == queue.json()["detail"]


async def test_a_namespace_that_is_not_allowed_is_forbidden(cluster_client):
    await create(cluster_client)
    answer = await cluster_client.post(f"{FROM_TEMPLATE}/train", json={"name": "mine", "namespace": "kube-system"})

    assert (answer.status_code, answer.json()["detail"]) == (403, "Namespace 'kube-system' not allowed. Allowed namespaces: ['gco-jobs']")


async def test_without_a_cluster_it_is_said(client):
    await create(client)
    answer = await client.post(f"{FROM_TEMPLATE}/train", json={"name": "mine"})

    assert answer.status_code == 503
    assert "reaches no cluster" in answer.json()["detail"]

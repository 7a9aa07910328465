"""Manifests that are refused before the cluster is asked: with the place of what is wrong, and whatever their number and size."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import pytest

from shared.identity.callers import Caller, Right
from tests.integration.api.manifests import CONFIG_MAPS, MANIFESTS, NAMESPACE, config, service, submit
from tests.integration.region import job
from workers.api.gco.applying import apply


@pytest.fixture
async def core(cluster_core):
    return cluster_core


async def test_one_beyond_the_limit_is_refused_with_size_and_limit(client):
    manifest = job("large")
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "DATA", "value": "x" * 1_600_000}]

    code, body = await submit(client, manifest)

    [problem] = body["detail"]
    assert (code, problem["pointer"]) == (422, "/manifests/0")
    assert problem["ctx"]["size"] > 1_600_000 > problem["ctx"]["limit"]


async def test_all_problems_of_all_manifests_are_told_at_once(client, region):
    bad = job("Bad_Name")
    bad["spec"]["template"]["spec"]["hostNetwork"] = True

    code, body = await submit(client, config(), bad, service(port=0) | {"kind": "Ingress"}, validate=False)

    pointers = {problem["pointer"] for problem in body["detail"]}
    assert code == 422
    assert {"/validate", "/manifests/1/metadata/name", "/manifests/1/spec/template/spec/hostNetwork", "/manifests/2/kind"} <= pointers


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"manifests": []}, "/manifests"),
        ({}, "/manifests"),
        ({"manifests": [config(f"c{number}") for number in range(101)]}, "/manifests"),
        ({"manifests": [{"kind": "List", "items": [config(f"c{number}") for number in range(101)]}]}, "/manifests"),
        ({"manifests": [1]}, "/manifests/0"),
        ({"manifests": config()}, "/manifests"),
        ({"manifests": [config()], "dry_run": "yes"}, "/dry_run"),
        ({"manifests": [config()], "validate": False}, "/validate"),
        ({"manifests": [config()], "dryrun": True}, "/dryrun"),
        ({"manifests": [config(), config()]}, "/manifests/1/metadata/name"),
        ({"manifests": [{**config(), "metadata": {"name": "c", "annotations": {"gpufleet.io/submitted-by": "x"}}}]}, None),
    ],
)
async def test_bad_bodies_are_refused_with_the_place(client, body, pointer):
    answer = await client.post(MANIFESTS, json=body)

    assert answer.status_code == 422
    assert pointer is None or pointer in [problem["pointer"] for problem in answer.json()["detail"]]


async def test_namespaces(client, core, region):
    elsewhere = {**config(), "metadata": {"name": "c", "namespace": "kube-system"}}
    assert (await submit(client, config(), namespace="kube-system"))[0] == 403
    assert (await submit(client, elsewhere))[0] == 403
    assert (await client.get(f"{MANIFESTS}/kube-system/c")).status_code == 403
    assert (await client.delete(f"{MANIFESTS}/kube-system/c")).status_code == 403
    assert (await submit(client, config(), namespace=NAMESPACE))[0] == 200


async def test_validate_judges_each_manifest(client):
    bad = job("bad")
    bad["spec"]["template"]["spec"]["containers"][0]["image"] = "evil.example/x"

    answer = await client.post(f"{MANIFESTS}/validate", json={"manifests": [config(), bad, {"kind": 5}, config()]})

    body = answer.json()
    assert answer.status_code == 200
    assert (body["valid"], body["total_manifests"], body["valid_manifests"], body["invalid_manifests"]) == (False, 4, 1, 3)
    assert [result["valid"] for result in body["results"]] == [True, False, False, False]
    assert body["results"][0] == {
        "manifest_index": 0,
        "valid": True,
        "api_version": "v1",
        "kind": "ConfigMap",
        "name": "settings",
        "namespace": NAMESPACE,
        "error": None,
        "problems": [],
    }
    [problem] = body["results"][1]["problems"]
    assert problem["pointer"] == "/manifests/1/spec/template/spec/containers/0/image"
    assert problem["value"] == "evil.example/x"
    assert "evil.example/x" in body["results"][1]["error"]
    assert "only once" in body["results"][3]["error"]


async def test_a_caller_needs_the_right_and_the_namespace(core, region):
    caller = Caller(name="key:other", rights=frozenset(Right), namespaces=frozenset({"other"}))
    with pytest.raises(Exception, match="not allowed for key:other"):
        await apply(core, caller, [config()])
    mine = replace(caller, namespaces=frozenset({NAMESPACE}))
    outcome = await apply(core, mine, [config()])
    made = await region.api.request("GET", f"{CONFIG_MAPS}/settings")

    assert outcome.success
    assert made["metadata"]["annotations"]["gpufleet.io/submitted-by"] == "key:other"


@pytest.mark.parametrize("path", [MANIFESTS, f"{MANIFESTS}/validate"])
@pytest.mark.parametrize("as_list", [False, True])
async def test_ten_thousand_manifests_are_refused_before_they_are_looked_at(client, path, as_list):
    many = [config(f"c{number}", a="x" * 400) for number in range(10_000)]
    body = {"manifests": [{"apiVersion": "v1", "kind": "List", "items": many}] if as_list else many}
    tracemalloc.start()

    answer = await client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 422
    assert len(answer.content) < 1000
    assert "100" in answer.json()["detail"][0]["msg"]
    assert peak < 100 * 1024 * 1024

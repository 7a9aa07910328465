"""Every line of "Bad input": an answer that names field, value and rule, and nothing stored."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.integration.api.conftest import manifest, submission

JOBS = "/api/v1/queue/jobs"


@pytest.fixture
def client(shared_client):
    return shared_client


@pytest.fixture
def core(shared_core):
    return shared_core


@pytest.fixture(autouse=True)
async def nothing_is_stored(client):
    """Whatever a test here sends, no job comes of it."""
    before = (await client.get("/api/v1/queue/stats")).json()
    yield
    assert (await client.get("/api/v1/queue/stats")).json()["by_region"] == before["by_region"]


async def refused(client, body, *, status=422, headers=None) -> list[dict]:
    """Send a body that is to be refused; its problems, each of which has a place, a message and what stands there."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = await client.post(JOBS, content=content, headers={"Content-Type": "application/json"} | (headers or {}))
    assert answer.status_code == status, answer.text
    problems = answer.json()["detail"]
    for problem in problems:
        assert problem.keys() >= {"type", "loc", "msg", "input", "pointer"}
        assert problem["msg"]
    return problems


def places(problems):
    return [problem["pointer"] for problem in problems]


def with_limits(**limits):
    return submission(manifest=manifest(resources={"limits": {"cpu": "1", "memory": "1Gi"} | limits}))


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"", "the body must be JSON|is empty|required"),
        (b"{", "must be JSON: .* line 1, column 2"),
        (b'{"priority": 1, "priority": 2}', "only once"),
        (b'{"priority": NaN}', "finite"),
        (b'{"priority": -Infinity}', "finite"),
        (b'{"priority": 1e999}', "finite"),
        (b'{"target_region": "a\\u0000b"}', "NUL"),
        (b'{"target_region": "\\ud800"}', "surrogate"),
        (b'{"target_region": "\xff"}', "UTF-8"),
        (b"[" * 100_000, "nested at most"),
        (b'{"manifest": ' + b'{"a":' * 60 + b"1" + b"}" * 61, "nested at most"),
        (b"{} {}", "at most 1 document"),
        (b"9" * 5000, "integer"),
        (b"[]", "dictionary"),
        (b"null", "dictionary|required"),
        (b'"text"', "dictionary"),
    ],
)
async def test_a_body_that_is_no_good_json_is_refused_with_its_place(client, body, rule):
    import re

    problems = await refused(client, body)

    assert any(re.search(rule, problem["msg"]) for problem in problems), problems


async def test_another_content_type_is_refused(client):
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        [problem] = await refused(client, submission(), headers=headers)
        assert "application/json" in problem["msg"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"priority": True}, "/priority"),
        ({"priority": "5"}, "/priority"),
        ({"priority": 5.0}, "/priority"),
        ({"priority": None}, "/priority"),
        ({"priority": -1}, "/priority"),
        ({"priority": 101}, "/priority"),
        ({"priority": 10**30}, "/priority"),
        ({"namespace": 1}, "/namespace"),
        ({"namespace": None}, "/namespace"),
        ({"target_region": 1}, "/target_region"),
        ({"target_region": None}, "/target_region"),
        ({"manifest": None}, "/manifest"),
        ({"manifest": []}, "/manifest"),
        ({"manifest": "kind: Job"}, "/manifest"),
        ({"labels": {"a": 1}}, "/labels/a"),
        ({"labels": []}, "/labels"),
        ({"labels": {f"k{number}": "x" * 60 for number in range(40)}}, "/labels"),
        ({"labels": {"bad key!": "x"}}, "/labels/bad key!"),
        ({"labels": {"gpufleet.io/x": "x"}}, "/labels/gpufleet.io~1x"),
        ({"supporting": {}}, "/supporting"),
        ({"supporting": [1]}, "/supporting/0"),
        ({"supporting": [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}]}, "/supporting/0/kind"),
        ({"retry": {"max_attempts": "3"}}, "/retry/max_attempts"),
        ({"retry": {"max_attempts": 0}}, "/retry/max_attempts"),
        ({"retry": {"attempts": 3}}, "/retry/attempts"),
        ({"timeouts": {"total_seconds": True}}, "/timeouts/total_seconds"),
        ({"timeouts": {"total_seconds": 1.5}}, "/timeouts/total_seconds"),
        ({"unknown": 1}, "/unknown"),
        ({"idempotency_key": "a"}, "/idempotency_key"),
        ({"max_spot_price": 0.5}, "/spot_instance_type"),
        ({"spot_instance_type": "g5.xlarge"}, "/max_spot_price"),
        ({"max_spot_price": "0.5", "spot_instance_type": "g5.xlarge"}, "/max_spot_price"),
        ({"max_spot_price": True, "spot_instance_type": "g5.xlarge"}, "/max_spot_price"),
        ({"max_spot_price": 0, "spot_instance_type": "g5.xlarge"}, "/max_spot_price"),
        ({"max_spot_price": 0.00001, "spot_instance_type": "g5.xlarge"}, "/max_spot_price"),
        ({"max_spot_price": 1001, "spot_instance_type": "g5.xlarge"}, "/max_spot_price"),
        ({"max_spot_price": 1, "spot_instance_type": "G5 XLARGE"}, "/spot_instance_type"),
    ],
)
async def test_a_wrong_field_is_named(client, fields, pointer):
    assert places(await refused(client, submission(**fields))) == [pointer]


async def test_fields_that_are_missing_are_named(client):
    assert sorted(places(await refused(client, {}))) == ["/manifest", "/target_region"]


async def test_an_unknown_region_is_told_the_known_ones(client):
    [problem] = await refused(client, submission(target_region="mars-north-1"))

    assert (problem["pointer"], problem["input"]) == ("/target_region", "mars-north-1")
    assert "eu-west-1, us-east-1" in problem["msg"]


@pytest.mark.parametrize("namespace", ["kube-system", "default"])
async def test_a_namespace_that_is_not_allowed_is_forbidden(client, namespace):
    answer = await client.post(JOBS, json=submission(namespace=namespace))
    listed = await client.get(JOBS, params={"namespace": namespace})

    for found in (answer, listed):
        assert found.status_code == 403
        assert found.json()["detail"] == f"Namespace '{namespace}' not allowed. Allowed namespaces: ['gco-jobs']"


@pytest.mark.parametrize("namespace", ["", "Upper", "a_b", "-a", "a" * 64, "a/b"])
async def test_a_namespace_that_kubernetes_would_refuse_is_named(client, namespace):
    assert places(await refused(client, submission(namespace=namespace))) == ["/namespace"]


@pytest.mark.parametrize("key", ["", "has space", "x" * 129, "tab\there", "a;b"])
async def test_a_bad_idempotency_key_is_named(client, key):
    [problem] = await refused(client, submission(), headers={"Idempotency-Key": key})

    assert problem["loc"] == ["header", "Idempotency-Key"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"kind": "Deployment", "apiVersion": "apps/v1"}, "/manifest/kind"),
        ({"apiVersion": "batch/v1beta1"}, "/manifest/apiVersion"),
        ({"metadata": {"name": "Bad_Name"}}, "/manifest/metadata/name"),
        ({"metadata": {"name": "train", "namespace": "other"}}, "/manifest/metadata/namespace"),
        ({"metadata": {"name": "train", "labels": {"a": 1}}}, "/manifest/metadata/labels/a"),
        ({"spce": {}}, "/manifest/spce"),
    ],
)
async def test_a_manifest_that_breaks_a_rule_is_told_where(client, change, pointer):
    assert pointer in places(await refused(client, submission(manifest=manifest() | change)))


async def test_a_generated_name_is_refused(client):
    """The fleet makes the name on the cluster."""
    answer = await client.post(JOBS, json=submission(manifest=manifest() | {"metadata": {"generateName": "train-"}}, priority=101))

    assert "/manifest/metadata/generateName" in places(answer.json()["detail"])


async def test_all_problems_come_at_once(client):
    bad = manifest(image="evil/miner", securityContext={"privileged": True})
    bad["spec"]["template"]["spec"]["hostNetwork"] = True
    found = places(await refused(client, submission(manifest=bad, target_region="nowhere", max_spot_price=1)))

    spec = "/manifest/spec/template/spec"
    assert set(found) >= {
        "/target_region",
        "/spot_instance_type",
        f"{spec}/hostNetwork",
        f"{spec}/containers/0/image",
        f"{spec}/containers/0/securityContext/privileged",
    }


async def test_what_many_pods_would_hold_together_is_counted(client):
    """Case 20."""
    big = manifest(resources={"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 8}})
    big["spec"] |= {"parallelism": 1000, "completions": 1000}
    problems = await refused(client, submission(manifest=big))

    assert any("8000" in problem["msg"] for problem in problems), problems


async def test_wrong_fields_and_a_wrong_manifest_are_told_together(client):
    """A field of a wrong type and one that nobody knows don't hide what the policy has to say."""
    found = places(await refused(client, submission(manifest=manifest(image="evil/miner"), priority="5", surplus=1)))

    assert found == ["/priority", "/surplus", "/manifest/spec/template/spec/containers/0/image"]


@pytest.mark.parametrize("quantity", ["1K", "1 Gi", "1gi", "1GiB", "NaN", ""])
async def test_a_wrong_quantity_is_named(client, quantity):
    """Case 18."""
    found = places(await refused(client, with_limits(memory=quantity)))

    assert found == ["/manifest/spec/template/spec/containers/0/resources/limits/memory"]


async def test_a_body_over_the_limit_is_413_however_it_is_sent(core, client):
    limit = core.settings.max_body_bytes
    detail = f"Request body exceeds maximum size of {limit} bytes"

    async def chunks():
        for _ in range(limit // 65536 + 1):
            yield b" " * 65536

    whole = await client.post(JOBS, content=b" " * (limit + 1), headers={"Content-Type": "application/json"})
    chunked = await client.post(JOBS, content=chunks(), headers={"Content-Type": "application/json"})
    lying = await client.post(JOBS, content=b"{}", headers={"Content-Type": "application/json", "Content-Length": str(limit + 1)})

    for answer in (whole, chunked, lying):
        assert (answer.status_code, answer.json()) == (413, {"detail": detail})


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"cursor": "nonsense"}, ["query", "cursor"]),
        ({"cursor": "x" * 3000}, ["query", "cursor"]),
        ({"limit": "0"}, ["query", "limit"]),
        ({"limit": "1001"}, ["query", "limit"]),
        ({"limit": "ten"}, ["query", "limit"]),
        ({"status": "finished"}, ["query", "status"]),
        ({"target_region": "mars-north-1"}, ["query", "target_region"]),
    ],
)
async def test_a_bad_parameter_of_a_list_is_named(client: httpx.AsyncClient, params, place):
    answer = await client.get(JOBS, params=params)

    assert answer.status_code == 422
    assert [problem["loc"] for problem in answer.json()["detail"]] == [place]


async def test_secrets_of_a_large_body_are_not_sent_back(client):
    answer = await client.post(JOBS, json={"manifest": manifest(env=[{"name": "TOKEN", "value": "hunter2"}]), "surplus": {"a": "hunter2"}})

    assert answer.status_code == 422
    assert "hunter2" not in answer.text

"""Every line of "Bad input" about a submission and its manifest: an answer that names field, value and rule, and nothing stored."""

from __future__ import annotations

import re

import pytest

from tests.integration.api.bad_input import JOBS, SPEC, places, refused
from tests.integration.api.conftest import manifest, submission

pytestmark = pytest.mark.usefixtures("nothing_is_stored")


@pytest.fixture
def client(shared_client):
    return shared_client


@pytest.fixture
def core(shared_core):
    return shared_core


def with_limits(**limits):
    return submission(manifest=manifest(resources={"limits": {"cpu": "1", "memory": "1Gi"} | limits}))


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"", "the body must be JSON|must be given"),
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
        (b"[]", "must be an object"),
        (b"null", "must be an object|must be given"),
        (b'"text"', "must be an object"),
    ],
)
async def test_a_body_that_is_no_good_json_is_refused_with_its_place(client, body, rule):
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


async def test_levels_are_counted_the_same_wherever_they_are_bounded(client):
    """The manifest itself may have fifty, whether the reader of the body or the policy finds that it has more."""

    async def said(levels):
        deep = {}
        for _ in range(levels - 2):  # the manifest, and the innermost object
            deep = {"a": deep}
        return " ".join(problem["msg"] for problem in await refused(client, submission(manifest=manifest() | {"surplus": deep})))

    assert "must be a field of Job" in await said(50)
    for levels in (51, 52, 53, 200):
        assert "must be nested at most 50 levels deep" in await said(levels)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"retry": {"backoff_seconds": 601}}, "/retry/backoff_seconds"),
        ({"retry": {"max_backoff_seconds": 9}}, "/retry/backoff_seconds"),
        ({"timeouts": {"execution_seconds": 61, "total_seconds": 60}}, "/timeouts/execution_seconds"),
        ({"timeouts": {"queue_seconds": 61, "total_seconds": 60}}, "/timeouts/queue_seconds"),
    ],
)
async def test_limits_that_contradict_each_other_are_refused(client, fields, pointer):
    [problem] = await refused(client, submission(**fields))

    assert problem["pointer"] == pointer
    assert "must not be more than" in problem["msg"]


async def test_labels_that_are_too_many_are_told_in_plain_words(client):
    [problem] = await refused(client, submission(labels={f"k{number}": "x" * 60 for number in range(40)}))

    assert problem["msg"] == "must have at most 2048 bytes of keys and values, and has 2510"


async def test_what_many_pods_would_hold_together_is_counted(client):
    """Case 20."""
    big = manifest(resources={"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 8}})
    big["spec"] |= {"parallelism": 1000, "completions": 1000}
    problems = await refused(client, submission(manifest=big))

    assert any("8000" in problem["msg"] for problem in problems), problems


@pytest.mark.parametrize("quantity", ["1K", "1 Gi", "1gi", "1GiB", "NaN", ""])
async def test_a_wrong_quantity_is_named(client, quantity):
    """Case 18."""
    found = places(await refused(client, with_limits(memory=quantity)))

    assert found == [f"{SPEC}/containers/0/resources/limits/memory"]


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
        assert (answer.status_code, answer.json()["detail"]) == (413, detail)


async def test_secrets_of_a_large_body_are_not_sent_back(client):
    answer = await client.post(JOBS, json={"manifest": manifest(env=[{"name": "TOKEN", "value": "hunter2"}]), "surplus": {"a": "hunter2"}})

    assert answer.status_code == 422
    assert "hunter2" not in answer.text

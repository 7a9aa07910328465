"""Whatever is wrong with a submission comes in one answer and once, and no fault hides another."""

from __future__ import annotations

import pytest

from tests.integration.api.bad_input import JOBS, SPEC, places, refused
from tests.integration.api.conftest import manifest, submission

pytestmark = pytest.mark.usefixtures("nothing_is_stored")


@pytest.fixture
def client(shared_client):
    return shared_client


def everything_wrong():
    bad = manifest(image="evil/miner", securityContext={"privileged": True}, resources={"limits": {"nvidia.com/gpu": 99}})
    bad["spec"]["template"]["spec"] |= {"hostNetwork": True, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    return bad | {"apiVersion": "batch/v1beta1", "metadata": {"name": "Bad_Name"}}


EVERYTHING = {
    "/manifest/apiVersion",
    "/manifest/metadata/name",
    SPEC,
    f"{SPEC}/hostNetwork",
    f"{SPEC}/volumes/0/hostPath",
    f"{SPEC}/containers/0/image",
    f"{SPEC}/containers/0/securityContext/privileged",
    "/namespace",
    "/target_region",
    "/retry/backoff_seconds",
    "/timeouts/queue_seconds",
    "/timeouts/execution_seconds",
    "/Idempotency-Key",
}


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({}, set()),
        ({"priority": 101, "surplus": 1}, {"/priority", "/surplus"}),
        ({"labels": {"a": 1, "bad key!": "x"}}, {"/labels/a", "/labels/bad key!"}),
        ({"supporting": [1, {"kind": "Secret"}]}, {"/supporting/0", "/supporting/1/kind"}),
    ],
)
async def test_whatever_is_wrong_comes_in_one_answer_and_once(client, fields, more):
    body = submission(
        manifest=everything_wrong(),
        namespace="kube-system",
        target_region="mars-1",
        retry={"backoff_seconds": 5, "max_backoff_seconds": 4},
        timeouts={"queue_seconds": 3, "execution_seconds": 3, "total_seconds": 2},
        **fields,
    )

    found = await refused(client, body, headers={"Idempotency-Key": "a b"})

    assert sorted(places(found)) == sorted(EVERYTHING | more)
    [namespace] = [problem for problem in found if problem["pointer"] == "/namespace"]
    assert namespace["input"] == "kube-system"
    assert "allowed namespace: gco-jobs" in namespace["msg"]


async def test_a_field_that_can_not_be_read_is_told_once_and_hides_nothing_else(client):
    found = await refused(
        client, submission(manifest=5, namespace=None, target_region=None, retry=[], max_spot_price=1, spot_instance_type=1)
    )

    assert sorted(places(found)) == ["/manifest", "/namespace", "/retry", "/spot_instance_type", "/target_region"]
    assert {problem["msg"] for problem in found if problem["pointer"] in {"/manifest", "/retry"}} == {"must be an object"}


async def test_what_is_too_large_hides_nothing(client):
    huge = manifest(env=[{"name": "A", "value": "x" * 1_500_000}], image="evil/miner")

    found = await refused(client, submission(manifest=huge, namespace="kube-system", priority=101))
    alone = await refused(client, submission(manifest=manifest(env=[{"name": "A", "value": "x" * 1_500_000}])))

    assert places(found) == ["/priority", "/manifest", f"{SPEC}/containers/0/image", "/namespace"]
    assert [(problem["pointer"], problem["type"], problem["ctx"]["limit"]) for problem in alone] == [("/manifest", "too_large", 1_441_792)]


async def test_a_thousand_wrong_objects_are_not_told_one_by_one(client):
    assert len(await refused(client, submission(supporting=[1] * 1000))) <= 33


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


async def test_wrong_fields_and_a_wrong_manifest_are_told_together(client):
    """A field of a wrong type and one that nobody knows don't hide what the policy has to say."""
    found = places(await refused(client, submission(manifest=manifest(image="evil/miner"), priority="5", surplus=1)))

    assert found == ["/priority", "/surplus", "/manifest/spec/template/spec/containers/0/image"]


async def test_a_wrong_parameter_and_a_wrong_body_are_told_together_and_nothing_is_done(client):
    for body, further in [(submission(), []), (submission(priority=101, namespace="kube-system"), ["/priority", "/namespace"])]:
        answer = await client.post(f"{JOBS}?dry_run=true", json=body)
        assert answer.status_code == 422
        assert places(answer.json()["detail"]) == ["/dry_run", *further]


async def test_a_namespace_does_not_hide_behind_another_wrong_filter(client):
    answer = await client.get(JOBS, params={"namespace": "default", "status": "nonsense"})

    assert places(answer.json()["detail"]) == ["/status", "/namespace"]

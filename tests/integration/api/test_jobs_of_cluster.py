"""The list of a cluster's Jobs, through the API and against a simulated cluster over HTTP."""

from __future__ import annotations

import pytest

from shared.identity.callers import Caller, Right
from shared.policy.settings import Policy
from tests.integration.api.cluster_jobs import JOBS, NAMESPACE, bulk, listed, listed_when, make, named
from tests.integration.api.conftest import serving
from tests.integration.region import job
from workers.api.cluster_access import ClusterAccess
from workers.api.core import build


@pytest.fixture
async def core(cluster_core):
    return cluster_core


async def test_a_job_is_told_as_kubernetes_and_in_one_word(client, region):
    made = await make(region, "plain", labels={"team": "vision"})

    answer = await listed(client)

    assert {key: answer[key] for key in ("total", "limit", "offset", "has_more", "count")} == {
        "total": 1,
        "limit": 50,
        "offset": 0,
        "has_more": False,
        "count": 1,
    }
    assert answer["region"] == "us-east-1"
    (found,) = answer["jobs"]
    assert found["metadata"] == {
        "name": "plain",
        "namespace": NAMESPACE,
        "creationTimestamp": made["metadata"]["creationTimestamp"],
        "labels": {"team": "vision"},
        "uid": made["metadata"]["uid"],
    }
    assert found["spec"] == {"parallelism": 1, "completions": 1, "backoffLimit": 0}
    assert found["status"].keys() == {"active", "succeeded", "failed", "startTime", "completionTime", "conditions"}
    assert (found["computed_status"], found["job_id"]) == ("pending", None)


async def test_a_job_of_the_queue_is_told_with_its_id(client, region):
    await region.dispatcher()
    head = await region.submit(manifest=job(hang="true"))

    (found,) = (await listed_when(client, lambda answer: answer["count"]))["jobs"]

    assert found["job_id"] == head.id


async def test_orders_and_pages(client, region):
    for name in ("b", "c", "a"):
        await make(region, name)
    await make(region, "run", hang="true")
    await listed_when(client, lambda answer: answer["total"] == 1, status="running")

    assert named(await listed(client, sort="name")) == ["a", "b", "c", "run"]
    assert named(await listed(client, sort="name:desc")) == ["run", "c", "b", "a"]
    assert named(await listed(client, sort="status:asc")) == ["a", "b", "c", "run"]
    assert named(await listed(client, sort="status:desc")) == ["run", "a", "b", "c"]
    assert len(named(await listed(client, sort="createdAt:asc"))) == 4
    page = await listed(client, sort="name:asc", limit=2, offset=1)
    assert (named(page), page["total"], page["has_more"], page["count"]) == (["b", "c"], 4, True, 2)
    last = await listed(client, limit=2, offset=3)
    assert (last["count"], last["total"], last["has_more"]) == (1, 4, False)
    beyond = await listed(client, sort="name", offset=10)
    assert (beyond["count"], beyond["total"], beyond["has_more"]) == (0, 4, False)


async def test_label_selectors(client, region):
    await make(region, "a", labels={"team": "vision"})
    await make(region, "b", labels={"team": "vision", "stage": "test"})
    await make(region, "c", labels={"team": "audio"})

    for selector, names in (
        ("team=vision", ["a", "b"]),
        ("team in (vision, audio),stage!=test", ["a", "c"]),
        ("!stage", ["a", "c"]),
        (" ", ["a", "b", "c"]),
        ("", ["a", "b", "c"]),
    ):
        assert named(await listed(client, label_selector=selector, sort="name")) == names
        for sort in ("name", "createdAt"):
            assert (await listed(client, label_selector=selector, sort=sort, limit=1))["total"] == len(names)


async def test_filters_by_status(client, region):
    await make(region, "waits")
    await make(region, "runs", hang="true")
    await make(region, "done", duration=0.01)
    await make(region, "broken", exit_code="1")
    await listed_when(client, lambda answer: answer["total"] == 1, status="failed")
    await listed_when(client, lambda answer: answer["total"] == 1, status="running")

    assert named(await listed_when(client, lambda answer: answer["total"] == 1, status="succeeded")) == ["done"]
    assert named(await listed(client, status="completed")) == ["done"]
    assert named(await listed(client, status="pending")) == ["waits"]
    assert named(await listed(client, status="running")) == ["runs"]
    assert named(await listed(client, status="failed")) == ["broken"]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"status": "done"}, "/status"),
        ({"sort": "age"}, "/sort"),
        ({"sort": "name:down"}, "/sort"),
        ({"sort": "name:asc\n"}, "/sort"),
        ({"limit": 0}, "/limit"),
        ({"limit": 1001}, "/limit"),
        ({"offset": -1}, "/offset"),
        ({"offset": 100_001}, "/offset"),
        ({"offset": 10**30}, "/offset"),
        ({"label_selector": "team in"}, "/label_selector"),
        ({"label_selector": "a" * 1025}, "/label_selector"),
        ({"label_selector": "a=\0"}, "/label_selector"),
        ({"labelSelector": "a=b"}, "/labelSelector"),
    ],
)
async def test_what_is_wrong_is_told_with_its_place(shared_client, query, pointer):
    answer = await shared_client.get(JOBS, params=query)

    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["detail"]] == [pointer]


async def test_all_that_is_wrong_is_told_at_once(shared_client):
    answer = await shared_client.get(JOBS, params={"status": "done", "sort": "age", "label_selector": "a b", "limit": 0})

    problems = answer.json()["detail"]
    assert {problem["pointer"] for problem in problems} == {"/status", "/sort", "/label_selector", "/limit"}
    (selector,) = (problem for problem in problems if problem["pointer"] == "/label_selector")
    assert "at character 3 stands 'b' instead of an operator" in selector["msg"]
    assert selector["loc"] == ["query", "label_selector"]


async def test_a_namespace_that_is_not_allowed_is_forbidden(shared_client):
    for answer in (
        await shared_client.get(JOBS, params={"namespace": "kube-system"}),
        await shared_client.request("DELETE", JOBS, json={"namespace": "kube-system", "all": True}),
        await shared_client.delete(f"{JOBS}/kube-system/x"),
    ):
        assert answer.status_code == 403
        assert answer.json()["detail"].startswith("Namespace 'kube-system' not allowed.")


class TestOfSeveralNamespaces:
    """All that the policy and the caller's key allow, together."""

    @pytest.fixture
    async def core(self, region, tmp_path):
        settings = region.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"})
        access = ClusterAccess(settings)
        core = await build(settings, region.aws, access=access)
        object.__setattr__(core, "policy", Policy(allowed_namespaces=("gco-jobs", "ml", "missing")))
        await region.api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "ml"}})
        yield core
        await access.close()

    async def test_they_are_merged(self, client, region):
        await make(region, "a", namespace="ml")
        await make(region, "b")
        await make(region, "c", namespace="ml")
        await make(region, "a")

        answer = await listed(client, sort="name", limit=3)

        assert answer["total"] == 4
        assert [(one["metadata"]["name"], one["metadata"]["namespace"]) for one in answer["jobs"]] == [
            ("a", NAMESPACE),
            ("a", "ml"),
            ("b", NAMESPACE),
        ]
        assert named(await listed(client, namespace="ml", sort="name")) == ["a", "c"]

    async def test_one_that_cannot_be_listed_is_an_error(self, client, region):
        await make(region, "a")
        region.fault(path="/namespaces/ml/jobs", status=403)

        answer = await client.get(JOBS)

        assert answer.status_code == 502
        assert "namespaces/ml/jobs" in answer.json()["detail"]

    async def test_a_caller_sees_and_deletes_no_further_than_his_namespaces(self, core, region, monkeypatch):
        monkeypatch.setattr(
            "workers.api.identity.LOCAL", Caller(name="key:ml", rights=frozenset(Right), namespaces=frozenset({"ml", "other"}))
        )
        await make(region, "a")
        await make(region, "b", namespace="ml")
        async with serving(core) as client:
            assert named(await listed(client)) == ["b"]
            assert named(await bulk(client, all=True)) == ["b"]
            assert (await client.get(JOBS, params={"namespace": NAMESPACE})).status_code == 403
        assert [one["metadata"]["name"] for one in await region.objects()] == ["a"]


async def test_an_expired_list_is_begun_again(client, region):
    for number in range(3):
        await make(region, f"j{number}")
    region.fault(path="/jobs", status=410, times=2)

    assert (await listed(client))["total"] == 3

    region.fault(path="/jobs", status=410, times=3)
    assert (await client.get(JOBS)).status_code == 503


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("label_selector=%FF", 422),
        ("label_selector=%ED%A0%80", 422),
        ("status=%00", 422),
        ("sort=%FF", 422),
        ("namespace=%FF", 403),
        ("namespace=%00", 422),
        ("namespace=", 403),
        ("limit=1e2", 422),
        ("status=failed&status=pending", 422),
    ],
)
async def test_any_bytes_of_a_query_are_answered(shared_client, query, status):
    assert (await shared_client.get(f"{JOBS}?{query}")).status_code == status

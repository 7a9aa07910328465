"""The list of a cluster's Jobs and their deletion in bulk, through the API and against a simulated cluster over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from shared.identity.callers import Caller, Right
from shared.jobs.states import State
from shared.policy.settings import Policy
from tests.integration.api.conftest import serving
from tests.integration.region import job
from workers.api.cluster_access import ClusterAccess
from workers.api.core import build
from workers.api.gco import bulk_deleting

NAMESPACE = "gco-jobs"
OBJECTS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
JOBS = "/api/v1/jobs"
GONE = "gone already, or about to go"


@pytest.fixture
async def core(cluster_core):
    return cluster_core


@pytest.fixture
async def client(core):
    async with serving(core) as found:
        yield found


async def make(region, name, *, labels=None, namespace=NAMESPACE, **options):
    """A Job of the cluster; one that is suspended unless it is told what to do."""
    manifest = job(name, **(options or {"hang": "true"}))
    manifest["metadata"]["labels"] = labels or {}
    manifest["spec"]["suspend"] = not options
    return await region.api.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body=manifest)


async def listed(client, **query):
    answer = await client.get(JOBS, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed_when(client, right, **query):
    """Ask until the list is as it is to be."""
    async with asyncio.timeout(20):
        while not right(found := await listed(client, **query)):
            await asyncio.sleep(0.05)
    return found


async def bulk(client, **body):
    answer = await client.request("DELETE", JOBS, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def named(answer):
    return [one.get("metadata", one)["name"] for one in answer["jobs"]]


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


async def test_bulk_delete_needs_a_condition(client, region):
    await make(region, "a")

    for body in ({}, {"dry_run": True}, {"label_selector": ""}, {"label_selector": " "}, {"all": False}):
        answer = await client.request("DELETE", JOBS, json=body)
        assert answer.status_code == 422
        (problem,) = answer.json()["detail"]
        assert "'all': true" in problem["msg"]
    assert len(await region.objects()) == 1


async def test_bulk_delete_refuses_with_the_place(client, region):
    await make(region, "a")

    for body, pointer in (
        ({"all": True, "status": "failed"}, ""),
        ({"status": "done"}, "/status"),
        ({"older_than_days": 0}, "/older_than_days"),
        ({"older_than_days": 366}, "/older_than_days"),
        ({"older_than_days": "3"}, "/older_than_days"),
        ({"label_selector": "a in (b"}, "/label_selector"),
        ({"label_selector": "a=\0"}, "/label_selector"),
        ({"state": "failed"}, "/state"),
        ({"all": "yes"}, "/all"),
    ):
        answer = await client.request("DELETE", JOBS, json=body)

        assert answer.status_code == 422, body
        (problem,) = answer.json()["detail"]
        assert (problem["pointer"], problem["loc"][0]) == (pointer, "body")
    assert len(await region.objects()) == 1


async def test_a_body_that_is_none_deletes_nothing(client, region):
    await make(region, "a")

    for body in (
        b"",
        b"null",
        b"[]",
        b'"all"',
        b'{"all": true, "all": false}',
        b'{"label_selector": "\\u0000"}',
        b'{"label_selector": "\\ud800"}',
        b'{"namespace": "\\ud800"}',
        b'{"older_than_days": 1e400}',
        b'{"older_than_days": NaN}',
        b'{"all": ' + b"[" * 60 + b"]" * 60 + b"}",
        b'{"all": ' + b"[" * 100_000,
    ):
        answer = await client.request("DELETE", JOBS, content=body, headers={"Content-Type": "application/json"})

        assert answer.status_code == 422, body[:40]
    assert len(await region.objects()) == 1


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


async def test_a_dry_run_tells_what_would_be_deleted(client, region):
    await make(region, "a", labels={"x": "1"})
    await make(region, "b")

    answer = await bulk(client, label_selector="x", dry_run=True)

    assert answer["jobs"] == [{"name": "a", "namespace": NAMESPACE}]
    assert (answer["dry_run"], answer["total_matched"], answer["deleted_count"], answer["failed"]) == (True, 1, 0, None)
    assert len(await region.objects()) == 2


async def test_bulk_delete_by_status_label_and_age(client, region):
    await make(region, "runs", hang="true")
    await make(region, "done", duration=0.01)
    await make(region, "keep", labels={"keep": "yes"})
    await listed_when(client, lambda answer: answer["total"] == 1, status="succeeded")

    assert (await bulk(client, older_than_days=1))["total_matched"] == 0
    done = await bulk(client, status="completed")
    assert (done["jobs"], done["deleted_count"], done["failed_count"], done["remaining"]) == (
        [{"name": "done", "namespace": NAMESPACE}],
        1,
        0,
        0,
    )
    assert named(await bulk(client, label_selector="!keep")) == ["runs"]
    assert named(await bulk(client, namespace=NAMESPACE)) == ["keep"]
    assert await region.objects() == []


async def test_what_one_request_does_not_delete_is_told(client, region, monkeypatch):
    for name in ("a", "b", "c"):
        await make(region, name)

    monkeypatch.setattr(bulk_deleting, "MOST", 2)
    would = await bulk(client, all=True, dry_run=True)
    some = await bulk(client, all=True)
    monkeypatch.setattr(bulk_deleting, "SECONDS", 0.0)
    late = await bulk(client, all=True)

    assert (would["total_matched"], len(would["jobs"]), would["remaining"]) == (3, 2, 1)
    assert (some["total_matched"], some["deleted_count"], some["remaining"]) == (3, 2, 1)
    assert (late["total_matched"], late["deleted_count"], late["failed"], late["remaining"]) == (1, 0, None, 1)
    assert len(await region.objects()) == 1


async def test_jobs_of_the_queue_are_cancelled_by_a_bulk_delete(client, region):
    await region.dispatcher()
    await region.observer()
    heads = [await region.submit(manifest=job(hang="true")) for _ in range(3)]
    for head in heads:
        await region.until(head.id, State.RUNNING)

    answer = await bulk(client, all=True)

    assert answer["deleted_count"] == 3
    for head in heads:
        ended = await region.until(head.id, *(state for state in State if state.terminal))
        assert (ended.state, ended.reason) == (State.CANCELLED, "deleted through the API")


async def test_what_fails_is_told_for_each_job(client, region):
    await make(region, "a")
    await make(region, "b")
    region.fault(method="DELETE", path="/jobs/b", status=403)

    answer = await bulk(client, all=True)

    assert answer["jobs"] == [{"name": "a", "namespace": NAMESPACE}]
    (failure,) = answer["failed"]
    assert (failure["name"], failure["namespace"], answer["failed_count"], answer["total_matched"]) == ("b", NAMESPACE, 1, 2)
    assert "a fault was injected here" in failure["error"]


async def test_a_deletion_whose_answer_is_lost_is_made_sure_of(client, region):
    await make(region, "a")
    region.fault(method="DELETE", path="/jobs/a", action="apply_then_drop")

    answer = await bulk(client, all=True)

    assert (answer["deleted_count"], answer["failed"], answer["remaining"]) == (0, None, 0)
    assert answer["skipped"] == [{"name": "a", "namespace": NAMESPACE, "reason": GONE}]
    assert await region.objects() == []


async def test_what_two_delete_at_once_counts_once(client, region):
    for number in range(30):
        await make(region, f"j{number}")

    answers = await asyncio.gather(*(bulk(client, all=True) for _ in range(3)))

    assert sorted(name for answer in answers for name in named(answer)) == sorted(f"j{number}" for number in range(30))
    for answer in answers:
        assert (answer["failed_count"], answer["remaining"]) == (0, 0)
        assert answer["deleted_count"] + answer["skipped_count"] == answer["total_matched"]
        assert {one["reason"] for one in answer["skipped"] or ()} <= {GONE}


@pytest.mark.parametrize("when", ["before it is looked at", "before it is deleted"])
async def test_what_somebody_else_deletes_is_not_counted(client, region, when):
    """It is listed by both, and one is held up: between the list and its look, or between its look and its deletion."""
    await make(region, "a")
    region.fault(method="GET" if when == "before it is looked at" else "DELETE", path="/jobs/a$", action="delay", delay=1.0)
    late = asyncio.create_task(bulk(client, all=True))
    await region.until_true(lambda: not region.server.faults.waiting)
    first = await bulk(client, all=True)

    second = await late

    assert (first["deleted_count"], named(first), first["skipped"]) == (1, ["a"], None)
    assert (second["total_matched"], second["deleted_count"], second["jobs"], second["failed"]) == (1, 0, [], None)
    assert second["skipped"] == [{"name": "a", "namespace": NAMESPACE, "reason": GONE}]


async def test_a_job_that_is_about_to_go_is_not_counted_again(client, region):
    made = await make(region, "a")
    patch = {"metadata": {"finalizers": ["tests/wait"]}}
    await region.api.request("PATCH", f"{OBJECTS}/a", body=patch, content_type="application/merge-patch+json")

    first, second = await bulk(client, all=True), await bulk(client, all=True)

    assert (first["deleted_count"], first["skipped_count"]) == (1, 0)
    assert (second["deleted_count"], second["skipped"]) == (0, [{"name": "a", "namespace": NAMESPACE, "reason": GONE}])
    assert [one["metadata"]["uid"] for one in await region.objects()] == [made["metadata"]["uid"]]


async def test_of_two_who_delete_what_a_finalizer_holds_one_counts_it(client, region):
    """Both have read it before either deletes it, and the cluster answers both that it is about to go."""
    await make(region, "a")
    patch = {"metadata": {"finalizers": ["tests/wait"]}}
    await region.api.request("PATCH", f"{OBJECTS}/a", body=patch, content_type="application/merge-patch+json")
    region.fault(method="DELETE", path="/jobs/a$", action="delay", delay=0.5)
    late = asyncio.create_task(bulk(client, all=True))
    await region.until_true(lambda: not region.server.faults.waiting)

    first, second = await bulk(client, all=True), await late

    assert (first["deleted_count"], first["skipped_count"]) == (1, 0)
    assert (second["deleted_count"], second["skipped"]) == (0, [{"name": "a", "namespace": NAMESPACE, "reason": GONE}])


async def test_a_job_that_changes_while_it_is_deleted_is_deleted_all_the_same(client, region):
    await make(region, "a")
    region.fault(method="DELETE", path="/jobs/a$", action="delay", delay=0.5)
    late = asyncio.create_task(bulk(client, all=True))
    await region.until_true(lambda: not region.server.faults.waiting)
    patch = {"metadata": {"labels": {"changed": "yes"}}}
    await region.api.request("PATCH", f"{OBJECTS}/a", body=patch, content_type="application/merge-patch+json")

    assert (await late)["deleted_count"] == 1
    assert await region.objects() == []


async def test_another_job_of_the_name_is_left_alone(client, region):
    await make(region, "a")
    region.fault(method="GET", path="/jobs/a$", action="delay", delay=1.0)
    late = asyncio.create_task(bulk(client, all=True))
    await region.until_true(lambda: not region.server.faults.waiting)
    await bulk(client, all=True)
    made = await make(region, "a")

    answer = await late

    assert (answer["deleted_count"], answer["failed"], answer["skipped_count"]) == (0, None, 1)
    assert [one["metadata"]["uid"] for one in await region.objects()] == [made["metadata"]["uid"]]


async def test_a_job_is_deleted_by_name_and_uid(client, region):
    made = await make(region, "a")
    uid = made["metadata"]["uid"]

    other = await client.delete(f"{JOBS}/{NAMESPACE}/a", params={"expected_uid": "other"})
    right = await client.delete(f"{JOBS}/{NAMESPACE}/a", params={"expected_uid": uid})
    again = await client.delete(f"{JOBS}/{NAMESPACE}/a")

    assert (other.status_code, other.json()["detail"]) == (409, f"Job 'a' UID changed; expected 'other', found '{uid}'")
    body = right.json()
    assert (body["job_name"], body["namespace"], body["uid"], body["status"]) == ("a", NAMESPACE, uid, "deleted")
    assert (again.status_code, again.json()["detail"]) == (404, "Job 'a' not found")


async def test_a_job_that_changes_before_its_deletion_is_left_alone(client, region):
    await make(region, "a")
    region.fault(method="DELETE", path="/jobs/a$", action="delay", delay=0.5)
    late = asyncio.create_task(client.delete(f"{JOBS}/{NAMESPACE}/a"))
    await region.until_true(lambda: not region.server.faults.waiting)
    await client.delete(f"{JOBS}/{NAMESPACE}/a")
    await make(region, "a")

    answer = await late

    assert (answer.status_code, answer.json()["detail"]) == (409, "Job 'a' changed before its UID-preconditioned delete")
    assert len(await region.objects()) == 1


async def test_a_job_that_no_longer_fulfils_the_filter_is_left_alone(client, region):
    """It was listed as one that waits, and runs by the time at which it would be deleted."""
    made = await make(region, "a")
    region.fault(method="GET", path="/jobs/a$", action="delay", delay=1.0)
    deleting = asyncio.create_task(bulk(client, status="pending"))
    await region.until_true(lambda: not region.server.faults.waiting)
    path = f"{OBJECTS}/a"
    await region.api.request("PATCH", path, body={"spec": {"suspend": False}}, content_type="application/merge-patch+json")
    await listed_when(client, lambda answer: answer["total"] == 1, status="running")

    answer = await deleting

    assert (answer["total_matched"], answer["deleted_count"], answer["jobs"], answer["remaining"]) == (1, 0, [], 0)
    assert (answer["failed_count"], answer["failed"], answer["skipped_count"]) == (0, None, 1)
    assert answer["skipped"] == [{"name": "a", "namespace": NAMESPACE, "reason": "Job 'a' has changed: it is running"}]
    assert [one["metadata"]["uid"] for one in await region.objects()] == [made["metadata"]["uid"]]


async def test_what_can_be_no_name_is_not_found(client, region):
    await make(region, "a")

    for name in ("%2E%2E", "%2E", "a%2Fb", "a%00", "A", "x" * 254):
        answer = await client.delete(f"{JOBS}/{NAMESPACE}/{name}")

        assert answer.status_code in (404, 405), name
    assert len(await region.objects()) == 1

"""Callers of a simulated cluster are held to their roles, as Kubernetes holds them."""

from __future__ import annotations

import json

import pytest

from tests.unit.cluster_sim.harness import APPLY
from workers.local.cluster.access import Access, Attributes, AuditFile, Record, attributes, rules_of
from workers.local.cluster.answers import RefusedError

JOBS = "/apis/batch/v1/namespaces/gco-jobs/jobs"

MANIFESTS = [
    {
        "kind": "ClusterRole",
        "metadata": {"name": "works"},
        "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "patch"]}],
    },
    {
        "kind": "ClusterRole",
        "metadata": {"name": "reads"},
        "rules": [{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}],
    },
    {
        "kind": "RoleBinding",
        "metadata": {"name": "works", "namespace": "gco-jobs"},
        "roleRef": {"kind": "ClusterRole", "name": "works"},
        "subjects": [{"kind": "ServiceAccount", "name": "worker", "namespace": "fleet"}],
    },
    {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reads"},
        "roleRef": {"kind": "ClusterRole", "name": "reads"},
        "subjects": [{"kind": "Group", "name": "readers"}],
    },
]
WORKER = "system:serviceaccount:fleet:worker"


@pytest.mark.parametrize(
    ("method", "path", "query", "found"),
    [
        pytest.param("GET", JOBS, {}, ("list", "batch", "jobs", "gco-jobs", ""), id="list"),
        pytest.param("GET", JOBS, {"watch": "true"}, ("watch", "batch", "jobs", "gco-jobs", ""), id="watch"),
        pytest.param("GET", "/apis/batch/v1/jobs", {"watch": "1"}, ("watch", "batch", "jobs", "", ""), id="watch-everywhere"),
        pytest.param("GET", f"{JOBS}/a", {"watch": "true"}, ("get", "batch", "jobs", "gco-jobs", "a"), id="get"),
        pytest.param("POST", JOBS, {}, ("create", "batch", "jobs", "gco-jobs", ""), id="create"),
        pytest.param("PUT", f"{JOBS}/a", {}, ("update", "batch", "jobs", "gco-jobs", "a"), id="update"),
        pytest.param("DELETE", f"{JOBS}/a", {}, ("delete", "batch", "jobs", "gco-jobs", "a"), id="delete"),
        pytest.param("DELETE", JOBS, {}, ("deletecollection", "batch", "jobs", "gco-jobs", ""), id="delete-all"),
        pytest.param("GET", "/api/v1/nodes/n", {}, ("get", "", "nodes", "", "n"), id="node"),
        pytest.param("GET", "/api/v1/namespaces/a", {}, ("get", "", "namespaces", "a", "a"), id="namespace"),
        pytest.param("GET", "/api/v1/namespaces/a/pods/p/log", {}, ("get", "", "pods/log", "a", "p"), id="log"),
        pytest.param("GET", "/api/v1/namespaces/a/pods/p:1/proxy/metrics", {}, ("get", "", "pods/proxy", "a", "p:1"), id="proxy"),
    ],
)
def test_a_request_is_read_as_kubernetes_reads_it(method, path, query, found) -> None:
    verb, group, resource, namespace, name = found
    wanted = Attributes(verb=verb, group=group, resource=resource, namespace=namespace, name=name)
    assert list(attributes(method, path, query, {}, lambda _: True)) == [wanted]


@pytest.mark.parametrize("path", ["/version", "/api", "/apis", "/api/v1", "/apis/batch/v1", "/readyz"])
def test_what_is_no_resource_is_for_everybody(path: str) -> None:
    assert not list(attributes("GET", path, {}, {}, lambda _: True))


def test_to_apply_what_is_not_there_takes_the_right_to_create_it() -> None:
    asked = attributes("PATCH", f"{JOBS}/a", {}, {"Content-Type": APPLY}, lambda path: path != f"{JOBS}/a")
    assert [one.verb for one in asked] == ["patch", "create"]


def test_a_right_holds_where_it_was_given() -> None:
    told: list[Record] = []
    access = Access(rules_of(MANIFESTS), tell=told.append)
    asks = {"Authorization": f"Bearer {WORKER}"}
    access.check("GET", f"{JOBS}/a", {}, asks, lambda _: True)(200)
    with pytest.raises(RefusedError, match=f'User "{WORKER}" cannot get resource "jobs" in API group "batch" in the namespace "other"'):
        access.check("GET", "/apis/batch/v1/namespaces/other/jobs/a", {}, asks, lambda _: True)
    with pytest.raises(RefusedError, match="cannot create"):
        access.check("PATCH", f"{JOBS}/a", {}, asks | {"Content-Type": APPLY}, lambda _: False)
    assert [(one.asked.verb, one.allowed, one.status) for one in told] == [("get", True, 200), ("get", False, 403), ("create", False, 403)]


def test_a_group_has_the_rights_of_its_binding_in_the_whole_cluster() -> None:
    access = Access(rules_of(MANIFESTS))
    access.check("GET", "/api/v1/pods", {}, {"Authorization": "Bearer somebody;readers"}, lambda _: True)
    access.check("GET", "/api/v1/namespaces/any/pods/p/log", {}, {"Authorization": "Bearer somebody;readers"}, lambda _: True)


def test_nobody_is_refused_and_without_rules_everybody_may() -> None:
    with pytest.raises(RefusedError) as refused:
        Access(rules_of(MANIFESTS)).check("GET", JOBS, {}, {}, lambda _: True)
    assert refused.value.code == 401
    Access(None).check("GET", JOBS, {}, {}, lambda _: True)


def test_a_binding_of_a_role_that_is_missing_is_no_rule_at_all() -> None:
    with pytest.raises(KeyError, match="reads"):
        rules_of([one for one in MANIFESTS if one["metadata"]["name"] != "reads" or "roleRef" in one])


def test_the_log_tells_each_thing_once(tmp_path) -> None:
    file = AuditFile(tmp_path / "audit")
    for name in ("a", "b"):
        asked = Attributes(verb="get", group="batch", resource="jobs", namespace="n", name=name)
        file.tell(Record(user="u", asked=asked, allowed=True, status=200))
    (line,) = (tmp_path / "audit").read_text().splitlines()
    assert json.loads(line)["asked"]["name"] == "a"

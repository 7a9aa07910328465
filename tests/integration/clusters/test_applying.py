"""The nine kinds that are applied directly, through the real client: what it costs, and what becomes of what others do meanwhile."""

from __future__ import annotations

import asyncio
import time

import pytest

from shared.clusters.api import KubernetesApi
from shared.clusters.applying import Done, Wanted, apply
from shared.clusters.client import connect
from shared.clusters.kinds import APPLIED
from shared.errors import ConflictError, UnavailableError
from tests.integration.clusters.builders import NAMESPACE, Counting
from tests.unit.clusters.scripted import document
from workers.local.cluster import NodeShape, SimulatedCluster, serve, write_kubeconfig
from workers.local.cluster.faults import Fault
from workers.local.cluster.kinds import TRAIN_JOB

POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox:1", "resources": {"limits": {"cpu": "10m"}}}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": POD["containers"]}}
SELECTOR = {"matchLabels": {"app": "x"}}
SPECS = {
    "Job": {"template": {"metadata": {"annotations": {"simulation.gpufleet.io/hang": "true"}}, "spec": POD}},
    "CronJob": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": POD}}}},
    "Deployment": {"selector": SELECTOR, "template": TEMPLATE},
    "StatefulSet": {"selector": SELECTOR, "serviceName": "x", "template": TEMPLATE},
    "DaemonSet": {"selector": SELECTOR, "template": TEMPLATE},
    "Service": {"ports": [{"port": 80}], "selector": {"app": "x"}},
    "Pod": POD,
    "TrainJob": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}},
}
STAYING = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
CONFIG_MAP = APPLIED["v1", "ConfigMap"]


@pytest.fixture
async def server():
    """A cluster on which Kubeflow's trainer is installed."""
    simulated = SimulatedCluster(
        name="test",
        region="r",
        nodes=(NodeShape(name="cpu-1"),),
        clock=time.time,
        seed=7,
        namespaces=(NAMESPACE,),
        extra_kinds=(TRAIN_JOB,),
    )
    async with serve([simulated]) as servers:
        yield servers[0]


@pytest.fixture
async def counting(server, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, {"r": server.url})
    async with connect(kubeconfig=kubeconfig, context="r", timeout=3.0) as api:
        yield Counting(api._transport)


@pytest.fixture
def api(counting):
    return KubernetesApi(counting)


def wanted(kind, **metadata):
    spec = {"data": {"a": "1"}} if kind.kind == "ConfigMap" else {"spec": SPECS[kind.kind]}
    manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"} | metadata} | spec
    return Wanted(manifest=manifest, namespace=NAMESPACE)


def config(**data):
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}
    return Wanted(manifest=manifest, namespace=NAMESPACE)


async def submit(api, *objects, **options):
    outcome = await apply(api, objects, submitted_by="somebody", **options)
    return [(one.status, one.message) for one in outcome.resources]


@pytest.mark.parametrize("kind", [kind for kind in APPLIED.values() if kind.kind != "Job"], ids=lambda kind: kind.kind)
async def test_a_kind_is_created_left_changed_and_dry_run(api, server, kind):
    dry = await submit(api, wanted(kind), dry_run=True)
    created = await submit(api, wanted(kind))
    version = (await api.request("GET", kind.path(NAMESPACE, "x")))["metadata"]["resourceVersion"]
    same = await submit(api, wanted(kind))
    changes = await submit(api, wanted(kind, labels={"team": "ml"}), dry_run=True)
    updated = await submit(api, wanted(kind, labels={"team": "ml"}))
    found = await api.request("GET", kind.path(NAMESPACE, "x"))

    told = [one[0][0] for one in (dry, created, same, changes, updated)]
    assert told == [Done.CREATED, Done.CREATED, Done.UNCHANGED, Done.UPDATED, Done.UPDATED]
    assert version != found["metadata"]["resourceVersion"] or kind.kind == "Pod"
    assert found["metadata"]["labels"] == {"team": "ml"}
    assert found["metadata"]["annotations"] == {"gpufleet.io/submitted-by": "somebody"} | (STAYING if kind.kind == "Pod" else {})


async def test_pods_of_every_kind_have_no_token_unless_they_ask_for_one(api):
    await submit(api, *map(wanted, APPLIED.values()))
    found = {kind.kind: await api.request("GET", kind.path(NAMESPACE, "x")) for kind in APPLIED.values()}
    pods = {
        "Pod": found["Pod"]["spec"],
        "CronJob": found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        **{kind: found[kind]["spec"]["template"]["spec"] for kind in ("Job", "Deployment", "StatefulSet", "DaemonSet")},
    }

    assert {kind: pod["automountServiceAccountToken"] for kind, pod in pods.items()} == dict.fromkeys(pods, False)
    assert found["CronJob"]["spec"]["jobTemplate"]["spec"]["podFailurePolicy"] == found["Job"]["spec"]["podFailurePolicy"]
    assert "automountServiceAccountToken" not in SPECS["Pod"]


async def test_what_runs_to_an_end_is_not_moved_to_save_a_node_and_what_serves_may_be(api):
    await submit(api, *map(wanted, APPLIED.values()))
    found = {kind.kind: await api.request("GET", kind.path(NAMESPACE, "x")) for kind in APPLIED.values()}
    pods = {
        "Pod": found["Pod"],
        "CronJob": found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"],
        **{kind: found[kind]["spec"]["template"] for kind in ("Job", "Deployment", "StatefulSet", "DaemonSet")},
    }
    told = {kind for kind, one in pods.items() if STAYING.items() <= one["metadata"].get("annotations", {}).items()}
    assert told == {"Job", "CronJob", "Pod"}
    assert "metadata" not in SPECS["CronJob"]["jobTemplate"]["spec"]["template"]


async def test_each_object_costs_three_requests(api, counting):
    await submit(api, *map(wanted, APPLIED.values()))

    assert len(counting.requests) == 3 * len(APPLIED)


async def test_a_controller_that_writes_in_between_is_no_change_of_ours(api, server):
    """Between the look and the apply the version changes; what is told compares with what stood when it was applied."""
    await submit(api, config(a="1"))
    taken = Fault(method="PATCH", path="/configmaps/x", action="delay", delay=0.3, after=1)
    server.faults.add(taken)
    submitting = asyncio.create_task(submit(api, config(a="1")))
    while server.faults.waiting:
        await asyncio.sleep(0.01)
    path = CONFIG_MAP.path(NAMESPACE, "x")
    await api.request(
        "PATCH", path, query={"fieldManager": "other"}, body={"data": {"b": "2"}}, content_type="application/merge-patch+json"
    )

    assert (await submitting)[0][0] is Done.UNCHANGED


async def test_what_another_creates_in_between_is_not_taken_unseen(api, server):
    """An object of the fleet that comes to have the name between the dry run and the apply is left as it is."""
    server.faults.add(Fault(method="PATCH", path="/configmaps/x", action="delay", delay=0.3, after=1))
    submitting = asyncio.create_task(submit(api, config(a="1")))
    while server.faults.waiting:
        await asyncio.sleep(0.01)
    theirs = {"metadata": {"name": "x", "labels": {"gpufleet.io/managed": "true", "gpufleet.io/job-id": "j"}}, "data": {"a": "2"}}
    await api.request("POST", CONFIG_MAP.path(NAMESPACE), body=theirs)

    with pytest.raises(ConflictError, match="job j"):
        await submitting
    assert (await api.request("GET", CONFIG_MAP.path(NAMESPACE, "x")))["data"] == {"a": "2"}


async def test_what_a_new_object_would_undo_is_refused_by_the_dry_run(api):
    """What is immutable is known to the cluster alone."""
    kind = APPLIED["apps/v1", "Deployment"]
    await submit(api, wanted(kind))
    other = wanted(kind)
    other.manifest["spec"] = {**SPECS["Deployment"], "selector": {"matchLabels": {"app": "y"}}}

    [(first, why), (second, message)] = await submit(api, config(a="1"), other)

    assert (first, second) == (Done.SKIPPED, Done.FAILED)
    assert "spec.selector" in message
    assert "another" in why


async def test_an_unknown_field_is_a_refusal_at_once(api):
    """The cluster may be older than the schemas of the policy; it answers an apply of a field that it doesn't know with a 500."""
    newer = wanted(APPLIED["v1", "Service"])
    newer.manifest["spec"] = {**SPECS["Service"], "ofTomorrow": True}

    [(status, message)] = await submit(api, newer)

    assert status is Done.FAILED
    assert ".spec.ofTomorrow: field not declared in schema" in message


class UsedUp(Counting):
    """A cluster whose quota of Jobs is used up."""

    async def send(self, method, path, **options):
        if method == "POST" and path.endswith("/jobs"):
            self.requests.append("POST jobs")
            message = 'jobs.batch "x" is forbidden: exceeded quota: few, requested: count/jobs.batch=1, used: 1, limited: 1'
            return document({"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}, status=403)
        return await super().send(method, path, **options)


async def test_a_used_up_quota_is_told_and_not_waited_for(counting):
    transport = UsedUp(counting)

    [(status, message)] = await submit(KubernetesApi(transport), wanted(APPLIED["batch/v1", "Job"]))

    assert status is Done.FAILED
    assert "exceeded quota: few" in message
    assert transport.requests.count("POST jobs") == 1


async def test_a_cluster_that_does_not_answer_is_unavailable_and_nothing_is_applied(api, server, monkeypatch):
    monkeypatch.setattr("shared.clusters.applying.PATIENCE_SECONDS", 1.0)
    version = server.cluster.resource_version
    server.faults.add(Fault(status=503, times=1000))

    with pytest.raises(UnavailableError):
        await submit(api, config(a="1"), wanted(APPLIED["batch/v1", "Job"]))
    assert server.cluster.resource_version == version


async def test_an_outcome_that_stays_open_is_told_as_such(api, server, monkeypatch):
    monkeypatch.setattr("shared.clusters.applying.PATIENCE_SECONDS", 1.0)
    server.faults.add(Fault(method="POST", path="/jobs", action="drop", after=1, times=1000))

    [(first, _), (second, message), (third, _)] = await submit(
        api, config(a="1"), wanted(APPLIED["batch/v1", "Job"]), wanted(APPLIED["v1", "Service"])
    )

    assert (first, second, third) == (Done.CREATED, Done.FAILED, Done.SKIPPED)
    assert message.endswith("whether it was applied is not known")


async def test_a_finished_job_that_a_finalizer_holds_is_waited_for_in_vain(api, server, monkeypatch):
    monkeypatch.setattr("shared.clusters.replacing.GONE_SECONDS", 1.0)
    job = APPLIED["batch/v1", "Job"]
    manifest = {"metadata": {"name": "x", "finalizers": ["example.com/hold"]}, "spec": {"template": {"spec": POD}}}
    await api.request("POST", job.path(NAMESPACE), body=manifest)
    while not (await api.request("GET", job.path(NAMESPACE, "x")))["status"].get("conditions"):
        await asyncio.sleep(0.02)

    [(status, message)] = await submit(api, wanted(job))

    assert status is Done.FAILED
    assert "still being deleted" in message


@pytest.mark.parametrize("action", ["apply_then_drop", "drop", "apply_then_answer"])
async def test_the_deletion_of_a_finished_job_whose_answer_is_lost_is_made_again(api, server, action):
    job = APPLIED["batch/v1", "Job"]
    made = await api.request("POST", job.path(NAMESPACE), body={"metadata": {"name": "x"}, "spec": {"template": {"spec": POD}}})
    while not (await api.request("GET", job.path(NAMESPACE, "x")))["status"].get("conditions"):
        await asyncio.sleep(0.02)
    server.faults.add(Fault(method="DELETE", path="/jobs/x", action=action, status=504))

    [(status, message)] = await submit(api, wanted(job))

    assert status is Done.CREATED
    assert made["metadata"]["uid"] in message

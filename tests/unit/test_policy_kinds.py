"""The nine kinds that may be applied directly: each is judged by the rules of pods, by its own, and by what it would hold."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shared.policy import Policy
from shared.policy.kinds import RULES
from shared.policy.manifests import check_manifest
from shared.policy.settings import RULED_MANIFEST_KINDS
from tests.unit.policy_examples import (
    GIB,
    a_cron_job,
    a_job,
    a_pod,
    a_workload,
    all_kinds,
    changed,
    direct_problems,
)

KINDS = all_kinds()
PODS = {
    "Job": "/spec/template",
    "CronJob": "/spec/jobTemplate/spec/template",
    "Deployment": "/spec/template",
    "StatefulSet": "/spec/template",
    "DaemonSet": "/spec/template",
    "Pod": "",
}
KEPT_RUNNING = ("Deployment", "StatefulSet", "DaemonSet")


def gpus_of(manifest: dict[str, Any]) -> int:
    return check_manifest(manifest, namespace=None, policy=Policy()).gpus


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_object_of_each_kind_is_admitted_by_its_one_version(kind: str) -> None:
    manifest = KINDS[kind]
    admission = check_manifest(manifest, namespace=None, policy=Policy())

    assert (admission.api_version, admission.kind, admission.name) == (manifest["apiVersion"], kind, manifest["metadata"]["name"])
    assert direct_problems({**manifest, "apiVersion": "example.com/v1"}) == {
        "/apiVersion": f"must be {manifest['apiVersion']} for kind {kind}"
    }
    assert direct_problems({**manifest, "apiVersion": None}).keys() == {"/apiVersion"}


def test_every_kind_that_a_policy_can_allow_has_rules() -> None:
    assert set(RULES) == set(RULED_MANIFEST_KINDS) == {(one["apiVersion"], kind) for kind, one in KINDS.items()}


def test_a_policy_may_allow_fewer_kinds() -> None:
    policy = Policy(manifest_kinds=(("batch/v1", "Job"),))

    assert not direct_problems(KINDS["Job"], policy=policy)
    assert direct_problems(KINDS["Pod"], policy=policy) == {"/kind": "must be an allowed kind here: Job (batch/v1)"}


@pytest.mark.parametrize("kind", ["Secret", "Role", "RoleBinding", "ReplicaSet", "Namespace", "ClusterTrainingRuntime", "job", ""])
def test_other_kinds_are_refused(kind: str) -> None:
    assert "must be an allowed kind here" in direct_problems({**KINDS["Pod"], "kind": kind})["/kind"]


# What holds for every pod


@pytest.mark.parametrize("kind", PODS)
@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("/spec/hostNetwork", True, "hostNetwork is not permitted"),
        ("/spec/hostPID", True, "hostPID is not permitted"),
        ("/spec/hostIPC", True, "hostIPC is not permitted"),
        ("/spec/volumes", [{"name": "v", "hostPath": {"path": "/"}}], "hostPath volumes are not permitted"),
        ("/spec/nodeName", "n", "goes round the scheduler"),
        ("/spec/serviceAccountName", "admin", "must be an allowed service account"),
        ("/spec/priorityClassName", "system-node-critical", "must not be a system class"),
        ("/spec/containers", [], "at least one container"),
        ("/spec/containers/0/image", "evil/x", "must come from a trusted source"),
        ("/spec/containers/0/securityContext", {"privileged": True}, "privileged containers are not permitted"),
        ("/spec/containers/0/resources/limits/cpu", "1 Gi", "must be a Kubernetes quantity"),
        ("/spec/containers/0/resources/requests/cpu", 9, "must not be more than the limit"),
        ("/spec/containers/0/resources/limits/nvidia.com~1gpu", 1, "must tolerate nvidia.com/gpu=true:NoSchedule"),
        ("/spec/containers/0/resources/limits/memory", "5Ti", "bytes of memory in one"),
        ("/spec/containers/0/env/0/name", "GPUFLEET_JOB_ID", "belongs to the fleet"),
        ("/spec/containers/0/unknown", 1, "must be a field of Container"),
        ("/spec/containers/0/volumeMounts", [{"name": "data", "mountPath": "/data"}], "must be the name of a volume of the pod"),
        ("/metadata/labels/gpufleet.io~1managed", "true", "belongs to the fleet"),
        ("/metadata/labels/batch.kubernetes.io~1controller-uid", "x", "the Job controller sets this label"),
        ("/metadata/annotations/gpufleet.io~1released", "no", "belongs to the fleet"),
        ("/metadata/finalizers", ["example.com/stay"], "only the cluster and its controllers set it"),
    ],
)
def test_the_pods_of_every_kind_keep_to_the_rules_of_pods(kind: str, place: str, value: Any, said: str) -> None:
    found = direct_problems(changed(PODS[kind] + place, value, job=KINDS[kind]))

    assert said in "; ".join(found.values())
    assert all(pointer.startswith(PODS[kind]) for pointer in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("/metadata/labels/gpufleet.io~1job-id", "x"),
        ("/metadata/annotations/gpufleet.io~1job-id", "x"),
        ("/metadata/ownerReferences", [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]),
        ("/metadata/generateName", "x-"),
        ("/metadata/name", "A_b"),
        ("/metadata/name", ""),
        ("/unknown", 1),
    ],
)
def test_the_metadata_of_every_kind_keeps_to_the_same_rules(kind: str, place: str, value: Any) -> None:
    assert direct_problems(changed(place, value, job=KINDS[kind])).keys() == {place}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("junk", [None, 5, "x", [], [None], {"a": None}])
def test_junk_in_place_of_a_specification_is_judged_and_never_crashes(kind: str, junk: Any) -> None:
    for place in ("/spec", "/metadata", "/spec/template", "/spec/jobTemplate", "/spec/selector", "/spec/trainer", "/spec/runtimePatches"):
        if kind != "ConfigMap" or place == "/metadata":
            direct_problems(changed(place, junk, job=KINDS[kind]))


@pytest.mark.parametrize("kind", [*PODS, "TrainJob"])
def test_what_runs_something_needs_to_say_what(kind: str) -> None:
    assert "must be given in" in direct_problems({key: value for key, value in KINDS[kind].items() if key != "spec"})["/spec"]


# What would run


@pytest.mark.parametrize(
    ("manifest", "gpus"),
    [
        (a_job(gpus=2, parallelism=3), 6),
        (a_job(gpus=2, parallelism=3, suspend=True), 6),
        (a_cron_job(gpus=2, parallelism=3), 6),
        (changed("/spec/suspend", True, job=a_cron_job(gpus=2)), 2),
        (a_workload("Deployment", gpus=2), 2),
        (a_workload("Deployment", gpus=2, replicas=8), 16),
        (a_workload("Deployment", gpus=2, replicas=0), 0),
        (a_workload("StatefulSet", gpus=2, replicas=4), 8),
        (a_workload("DaemonSet", gpus=2), 2),
        (a_pod(gpus=2), 2),
    ],
)
def test_what_counts_is_what_would_run(manifest: dict[str, Any], gpus: int) -> None:
    assert gpus_of(manifest) == gpus


@pytest.mark.parametrize(
    ("manifest", "place", "said"),
    [
        (a_job(gpus=8, parallelism=1000), "/spec/parallelism", "keep the job at or below 16 GPUs: 1000 pods at once with 8 each are 8000"),
        (a_cron_job(gpus=9, parallelism=2), "/spec/jobTemplate/spec/parallelism", "2 pods at once with 9 each are 18"),
        (a_workload("Deployment", gpus=1, replicas=17), "/spec/replicas", "keep the Deployment at or below 16 GPUs: 17 pods at once"),
        (a_workload("StatefulSet", gpus=8, replicas=3), "/spec/replicas", "keep the StatefulSet at or below 16 GPUs"),
        (a_workload("Deployment", gpus=17, replicas=0), "/spec/template/spec", "at most 16 GPUs in one Deployment: one pod asks for 17"),
        (a_workload("DaemonSet", gpus=17), "/spec/template/spec", "at most 16 GPUs in one DaemonSet: one pod asks for 17"),
        (a_pod(gpus=17), "/spec", "at most 16 GPUs in one Pod: one pod asks for 17"),
        (a_job(gpus=17, suspend=True), "/spec/template/spec", "at most 16 GPUs in one job"),
    ],
)
def test_beyond_the_caps_the_place_and_the_figures_are_told(manifest: dict[str, Any], place: str, said: str) -> None:
    found = direct_problems(manifest)

    assert found.keys() == {place}
    assert said in found[place]


def test_memory_and_cores_of_replicas_add_up() -> None:
    admission = check_manifest(a_workload("Deployment", replicas=3), namespace=None, policy=Policy())

    assert (admission.demand.cpu, admission.demand.memory) == (24, 192 * GIB)


# Their own rules


@pytest.mark.parametrize("kind", KEPT_RUNNING)
@pytest.mark.parametrize(
    "selector",
    [
        {"matchLabels": {"app": "serve"}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["other", "serve"]}]},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {"matchLabels": {"app": "serve"}, "matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["other"]}]},
    ],
)
def test_selectors_that_take_their_own_pods(kind: str, selector: dict[str, Any]) -> None:
    assert not direct_problems(a_workload(kind, selector=selector))


@pytest.mark.parametrize("kind", KEPT_RUNNING)
@pytest.mark.parametrize(
    ("selector", "place"),
    [
        ({}, "/spec/selector"),
        ({"matchLabels": {}}, "/spec/selector"),
        ({"matchLabels": {"app": "other"}}, "/spec/selector"),
        ({"matchLabels": {"app": "serve", "tier": "x"}}, "/spec/selector"),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["serve"]}]}, "/spec/selector"),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, "/spec/selector"),
        ({"matchExpressions": [{"key": "app", "operator": "Like"}]}, "/spec/selector/matchExpressions/0/operator"),
    ],
)
def test_selectors_that_do_not(kind: str, selector: dict[str, Any], place: str) -> None:
    assert direct_problems(a_workload(kind, selector=selector)).keys() == {place}


@pytest.mark.parametrize("kind", KEPT_RUNNING)
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("/spec/template/spec/restartPolicy", "Never"),
        ("/spec/template/spec/restartPolicy", "OnFailure"),
        ("/spec/template/spec/activeDeadlineSeconds", 60),
        ("/spec/minReadySeconds", -1),
        ("/metadata/name", "x" * 254),
    ],
)
def test_what_keeps_pods_running_has_pods_that_go_on(kind: str, place: str, value: Any) -> None:
    manifest = a_workload(kind)
    assert not direct_problems(changed("/spec/template/spec/restartPolicy", "Always", job=manifest))
    assert direct_problems(changed(place, value, job=manifest)).keys() == {place}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_replicas_are_not_negative(kind: str) -> None:
    assert direct_problems(a_workload(kind, replicas=-1)).keys() == {"/spec/replicas"}


def test_claims_of_a_stateful_set_do_not_carry_the_fleets_labels() -> None:
    claim = {"metadata": {"name": "data", "labels": {"gpufleet.io/managed": "true"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    found = direct_problems(a_workload("StatefulSet", volumeClaimTemplates=[claim]))

    assert found.keys() == {"/spec/volumeClaimTemplates/0/metadata/labels/gpufleet.io~1managed"}


def test_what_is_mounted_is_a_volume_or_a_claim_of_a_stateful_set() -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    stateful = a_workload("StatefulSet", volumeClaimTemplates=[claim])
    place = "/spec/template/spec/containers/0/volumeMounts"

    assert not direct_problems(changed(place, mounts, job=stateful))
    assert not direct_problems(changed("/spec/template/spec/volumes", [{"name": "data"}], job=changed(place, mounts, job=a_job())))
    assert direct_problems(changed(place, mounts, job=a_workload("Deployment"))).keys() == {f"{place}/0/name"}


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never", None])
def test_a_bare_pod_restarts_as_it_likes(policy: str | None) -> None:
    assert not direct_problems(changed("/spec/restartPolicy", policy, job=a_pod()))


@pytest.mark.parametrize("schedule", ["0 3 * * *", "*/5 * * * 1-5", "  0  3 1 JAN *", "@hourly", "@every 1h"])
def test_schedules(schedule: str) -> None:
    assert not direct_problems(changed("/spec/schedule", schedule, job=a_cron_job()))


@pytest.mark.parametrize("schedule", ["", "* * * *", "0 0 3 * * *", "TZ=UTC 0 3 * * *", "@noon", "never"])
def test_what_is_no_schedule(schedule: str) -> None:
    assert direct_problems(changed("/spec/schedule", schedule, job=a_cron_job())).keys() == {"/spec/schedule"}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("/spec/jobTemplate/spec/template/spec/restartPolicy", "Always"),
        ("/spec/jobTemplate/spec/backoffLimit", -1),
        ("/spec/jobTemplate/spec/selector", {"matchLabels": {"a": "b"}}),
        ("/spec/jobTemplate/metadata/labels/gpufleet.io~1managed", "true"),
        ("/spec/startingDeadlineSeconds", -1),
        ("/metadata/name", "x" * 53),
    ],
)
def test_the_job_of_a_cron_job_keeps_to_the_rules_of_jobs(place: str, value: Any) -> None:
    assert direct_problems(changed(place, value, job=a_cron_job())).keys() == {place}


def test_refusals_name_no_other_kind_than_the_one_they_are_about() -> None:
    rule = direct_problems(changed("/spec/template/spec/restartPolicy", "Never", job=a_workload("DaemonSet")))
    assert re.search(r"\bDaemonSet\b", rule["/spec/template/spec/restartPolicy"])

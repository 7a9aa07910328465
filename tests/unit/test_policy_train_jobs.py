"""TrainJobs: a structure that Kubernetes doesn't know, closed, and nothing in it that gets around the rules of pods."""

from __future__ import annotations

from typing import Any

import pytest

from shared.policy import Policy, Security
from shared.policy.manifests import check_manifest
from shared.policy.schemas import _definition
from shared.policy.train_job_schema import DEFINITIONS, TRAIN_JOB
from tests.unit.policy_examples import GPU_TOLERATION, a_train_job, changed, direct_problems, runtime_patch

PATCHED = "/spec/runtimePatches/0/trainingRuntimeSpec/template/spec/replicatedJobs/0/template/spec/template"
OVERRIDDEN = "/spec/podTemplateOverrides/0"


def with_override(pod: dict[str, Any], **more: Any) -> dict[str, Any]:
    return a_train_job(podTemplateOverrides=[{"targetJobs": [{"name": "node"}], "spec": pod, **more}], runtimePatches=None)


def with_patch(pod: dict[str, Any], **more: Any) -> dict[str, Any]:
    return a_train_job(runtimePatches=[runtime_patch(pod, **more)])


WAYS = {"podTemplateOverrides": (with_override, OVERRIDDEN), "runtimePatches": (with_patch, PATCHED)}


def test_a_whole_train_job_is_admitted() -> None:
    pod = {
        "serviceAccountName": "default",
        "nodeSelector": {"pool": "a"},
        "affinity": {"podAntiAffinity": {}},
        "tolerations": [GPU_TOLERATION],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
        "initContainers": [{"name": "fetch", "env": [{"name": "A", "value": "b"}]}],
        "schedulingGates": [{"name": "quota"}],
        "imagePullSecrets": [{"name": "registry"}],
        "securityContext": {"runAsUser": 1000},
    }
    train = a_train_job(
        gpus=2,
        nodes=4,
        suspend=True,
        managedBy="kueue.x-k8s.io/multikueue",
        activeDeadlineSeconds=60,
        labels={"team": "vision"},
        annotations={"note": "x"},
        initializer={
            "dataset": {"storageUri": "hf://a/b", "env": [{"name": "A", "value": "b"}], "secretRef": {"name": "token"}},
            "model": {"storageUri": "s3://bucket/path"},
        },
        podTemplateOverrides=[{"targetJobs": [{"name": "node"}], "metadata": {"labels": {"a": "b"}}, "spec": pod}],
        runtimePatches=[{**runtime_patch(pod, metadata={"annotations": {"a": "b"}}), "time": "2026-09-01T00:00:00Z"}],
    )
    train["spec"]["trainer"] |= {
        "command": ["torchrun"],
        "args": ["train.py"],
        "numProcPerNode": "auto",
        "env": [{"name": "A", "value": "b"}],
    }
    train["spec"]["runtimeRef"] |= {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime"}

    assert direct_problems(train) == {}


def test_every_definition_can_be_compiled() -> None:
    def referred(schema: Any) -> None:
        if isinstance(schema, dict):
            if "$ref" in schema:
                _definition(schema["$ref"].removeprefix("#/$defs/"))
            for inner in schema.values():
                referred(inner)

    referred(TRAIN_JOB)
    referred(DEFINITIONS)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("/spec/runtimeRefs", "did you mean 'runtimeRef'"),
        ("/spec/trainer/imagePullPolicy", "must be a field of Trainer"),
        ("/spec/runtimeRef/namespace", "must be a field of RuntimeRef"),
        ("/spec/initializer/dataset/image", "must be a field of DatasetInitializer"),
        (f"{PATCHED}/spec/hostNetwork", "must be a field of PodSpecPatch"),
        (f"{PATCHED}/spec/runtimeClassName", "must be a field of PodSpecPatch"),
        (f"{PATCHED}/spec/ephemeralContainers", "must be a field of PodSpecPatch"),
        (f"{PATCHED}/metadata/finalizers", "must be a field of PatchMetadata"),
        ("/spec/runtimePatches/0/trainingRuntimeSpec/mlPolicy", "must be a field of TrainingRuntimeSpecPatch"),
        ("/spec/runtimePatches/0/trainingRuntimeSpec/template/spec/network", "must be a field of JobSetSpecPatch"),
    ],
)
def test_unknown_fields_are_refused_everywhere(place: str, said: str) -> None:
    found = direct_problems(changed(place, "x", job=with_patch({})))

    assert found.keys() == {place}
    assert said in found[place]


def test_a_runtime_is_required() -> None:
    train = a_train_job()
    del train["spec"]["runtimeRef"]
    assert direct_problems(train) == {"/spec/runtimeRef": "must be given in TrainJobSpec"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ({"serviceAccountName": "admin"}, "/serviceAccountName"),
        ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, "/volumes/0/hostPath"),
        ({"volumes": [{"name": "v", "image": {"reference": "evil/x"}}]}, "/volumes/0/image/reference"),
        ({"containers": [{"name": "node", "image": "evil/x"}]}, "/containers/0/image"),
        ({"containers": [{"name": "node", "resources": {"limits": {"cpu": 500}}}]}, "/containers/0/resources"),
        ({"containers": [{"name": "node", "securityContext": {"privileged": True}}]}, "/containers/0/securityContext/privileged"),
        ({"initContainers": [{"name": "x", "securityContext": {"privileged": True}}]}, "/initContainers/0/securityContext/privileged"),
        ({"containers": [{"name": "x", "env": [{"name": "GPUFLEET_JOB_ID", "value": "x"}]}]}, "/containers/0/env/0/name"),
        (
            {"containers": [{"name": "x", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
            "/containers/0/securityContext/capabilities/add",
        ),
        ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, "/securityContext/sysctls/0/name"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "/securityContext/seccompProfile/type"),
    ],
)
def test_what_is_laid_over_the_pods_keeps_to_the_rules_of_pods(way: str, pod: dict[str, Any], place: str) -> None:
    make, prefix = WAYS[way]

    assert direct_problems(make(pod)).keys() == {f"{prefix}/spec{place}"}


@pytest.mark.parametrize("way", WAYS)
def test_labels_and_annotations_of_pods_keep_to_the_rules_of_pods(way: str) -> None:
    make, prefix = WAYS[way]
    metadata = {
        "labels": {"batch.kubernetes.io/controller-uid": "x", "gpufleet.io/managed": "true"},
        "annotations": {"container.apparmor.security.beta.kubernetes.io/node": "unconfined"},
    }
    assert direct_problems(make({}, metadata=metadata)).keys() == {
        f"{prefix}/metadata/labels/batch.kubernetes.io~1controller-uid",
        f"{prefix}/metadata/labels/gpufleet.io~1managed",
        f"{prefix}/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1node",
    }


@pytest.mark.parametrize(
    "place",
    [
        "/spec/labels/gpufleet.io~1managed",
        "/spec/annotations/gpufleet.io~1released",
        "/spec/runtimePatches/0/trainingRuntimeSpec/template/metadata/labels/gpufleet.io~1managed",
        "/spec/runtimePatches/0/trainingRuntimeSpec/template/spec/replicatedJobs/0/template/metadata/annotations/gpufleet.io~1job-id",
    ],
)
def test_the_fleets_own_keys_are_refused_everywhere(place: str) -> None:
    assert direct_problems(changed(place, "x", job=with_patch({}))).keys() == {place}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("/spec/trainer/image", "evil/x"),
        ("/spec/trainer/image", ""),
        ("/spec/trainer/env", [{"name": "GPUFLEET_X", "value": "x"}]),
        ("/spec/trainer/numNodes", -1),
        ("/spec/trainer/resourcesPerNode/limits/cpu", "1 Gi"),
        ("/spec/trainer/resourcesPerNode/requests", {"cpu": 9}),
        ("/spec/trainer/resourcesPerNode/claims", [{"name": "gpu"}]),
        ("/spec/initializer", {"model": {"env": [{"name": "GPUFLEET_X", "value": "x"}]}}),
        ("/spec/runtimeRef/kind", "Pod"),
        ("/spec/runtimeRef/apiGroup", "example.com"),
        ("/spec/managedBy", "example.com/other"),
        ("/spec/activeDeadlineSeconds", 0),
        ("/metadata/name", "1a"),
    ],
)
def test_what_the_cluster_or_the_policy_would_refuse(place: str, value: Any) -> None:
    [pointer] = direct_problems(changed(place, value, job=a_train_job()))

    assert pointer.startswith(place)


def test_nodes_times_the_resources_of_one_count_suspended_or_not() -> None:
    for suspend in (False, True):
        admission = check_manifest(a_train_job(gpus=2, nodes=4, suspend=suspend), namespace=None, policy=Policy())
        assert (admission.gpus, admission.demand.cpu) == (8, 32)
    assert check_manifest(a_train_job(gpus=2), namespace=None, policy=Policy()).gpus == 2
    assert check_manifest(a_train_job(gpus=2, nodes=0), namespace=None, policy=Policy()).gpus == 2


def test_beyond_the_caps_the_place_and_the_figures_are_told() -> None:
    assert "at most 16 GPUs in one TrainJob: one pod asks for 17" in direct_problems(a_train_job(gpus=17))["/spec/trainer/resourcesPerNode"]
    assert "3 pods at once with 8 each are 24" in direct_problems(a_train_job(gpus=8, nodes=3))["/spec/trainer/numNodes"]


def test_an_accelerator_is_tolerated_by_some_patch() -> None:
    train = a_train_job(gpus=1, runtimePatches=[runtime_patch({})])
    assert "must tolerate nvidia.com/gpu=true:NoSchedule" in direct_problems(train)["/spec/runtimePatches"]
    assert not direct_problems(train, policy=Policy(require_accelerator_toleration=False))
    train["spec"]["podTemplateOverrides"] = [{"targetJobs": [{"name": "node"}], "spec": {"tolerations": [GPU_TOLERATION]}}]
    assert not direct_problems(train)


def test_switches_hold_for_patches_too() -> None:
    train = with_patch({"securityContext": {"runAsUser": 0}})
    assert not direct_problems(train)
    assert direct_problems(train, policy=Policy(security=Security(block_run_as_root=True))).keys() == {
        f"{PATCHED}/spec/securityContext/runAsUser"
    }

"""Manifests to begin from in the tests of admission and rendering."""

import copy
from decimal import Decimal
from typing import Any

from shared.errors import InvalidError
from shared.policy import Admission, Policy, check
from shared.policy.manifests import check_manifest

GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}


def a_job(*, gpus: int | str | None = None, **spec: Any) -> dict[str, Any]:
    """A Job of one container that passes; `spec` goes over its spec."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "nvcr.io/nvidia/pytorch:25.01-py3",
        "command": ["python", "train.py"],
        "env": [{"name": "EPOCHS", "value": "3"}],
        "resources": {"limits": {"cpu": "8", "memory": "64Gi"}, "requests": {"cpu": 4, "memory": "32Gi"}},
    }
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if gpus is not None:
        container["resources"]["limits"]["nvidia.com/gpu"] = gpus
        pod["tolerations"] = [dict(GPU_TOLERATION)]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"team": "vision"}},
        "spec": {"backoffLimit": 2, "template": {"spec": pod}, **spec},
    }


def a_service(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "peers"}, "spec": {"clusterIP": "None", **spec}}


def a_config_map(**data: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def main_of(job: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = pod_of(job)["containers"][0]
    return container


def changed(path: str, value: Any, *, job: dict[str, Any] | None = None) -> dict[str, Any]:
    """A good Job (or a copy of the given one) with one value set at a JSON pointer, whose missing steps are made."""
    found: Any = copy.deepcopy(job) if job is not None else a_job()
    root = found
    *steps, last = [step.replace("~1", "/") for step in path.removeprefix("/").split("/")]
    for step in steps:
        found = found[int(step)] if isinstance(found, list) else found.setdefault(step, {})
    if isinstance(found, list):
        found.append(value) if last == "-" else found.__setitem__(int(last), value)
    else:
        found[last] = value
    return root  # type: ignore[no-any-return]


def admit(job: Any, *supporting: Any, policy: Policy | None = None, **options: Any) -> Admission:
    return check(job, list(supporting), **{"namespace": "gco-jobs", "policy": policy or Policy(), **options})


def problems(job: Any, *supporting: Any, policy: Policy | None = None, **options: Any) -> dict[str, str]:
    """The rules that are broken, by pointer; none when the job is admitted."""
    try:
        admit(job, *supporting, policy=policy, **options)
    except InvalidError as error:
        return told_by_pointer(error)
    return {}


def a_pod_template(*, gpus: int | None = None) -> dict[str, Any]:
    """A pod template for what keeps running, with the labels that the selectors here select."""
    pod = pod_of(a_job(gpus=gpus))
    del pod["restartPolicy"]
    return {"metadata": {"labels": {"app": "serve"}}, "spec": pod}


def a_workload(kind: str, *, gpus: int | None = None, **spec: Any) -> dict[str, Any]:
    """A Deployment, StatefulSet or DaemonSet that passes."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "serve"},
        "spec": {"selector": {"matchLabels": {"app": "serve"}}, "template": a_pod_template(gpus=gpus), **spec},
    }


def a_cron_job(*, gpus: int | None = None, **job_spec: Any) -> dict[str, Any]:
    job = a_job(gpus=gpus, **job_spec)
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": job["spec"]}},
    }


def a_pod(*, gpus: int | None = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shell"}, "spec": pod_of(a_job(gpus=gpus))}


def a_train_job(*, gpus: int | None = None, nodes: int | None = None, **spec: Any) -> dict[str, Any]:
    trainer: dict[str, Any] = {"image": "pytorch/pytorch:2.7.1", "resourcesPerNode": {"limits": {"cpu": 8, "memory": "64Gi"}}}
    patch: dict[str, Any] = {}
    if nodes is not None:
        trainer["numNodes"] = nodes
    if gpus is not None:
        trainer["resourcesPerNode"]["limits"]["nvidia.com/gpu"] = gpus
        patch["tolerations"] = [dict(GPU_TOLERATION)]
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "finetune"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, "runtimePatches": [runtime_patch(patch)], **spec},
    }


def runtime_patch(pod: dict[str, Any], **template: Any) -> dict[str, Any]:
    """A patch of the pods of a TrainJob's nodes."""
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod, **template}}}}
    return {"manager": "tests", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}


def all_kinds(*, gpus: int | None = None) -> dict[str, dict[str, Any]]:
    """One good object of each of the nine kinds."""
    examples = [
        a_job(gpus=gpus),
        a_cron_job(gpus=gpus),
        *(a_workload(kind, gpus=gpus) for kind in ("Deployment", "StatefulSet", "DaemonSet")),
        a_service(),
        a_config_map(a="b"),
        a_pod(gpus=gpus),
        a_train_job(gpus=gpus),
    ]
    return {example["kind"]: example for example in examples}


def direct_problems(manifest: Any, **options: Any) -> dict[str, str]:
    """The rules that one object breaks which is applied directly, by pointer within it; none when it is admitted."""
    try:
        check_manifest(manifest, **{"namespace": None, "policy": Policy(), "pointer": "", **options})
    except InvalidError as error:
        return told_by_pointer(error)
    return {}


def told_by_pointer(error: InvalidError) -> dict[str, str]:
    assert len({(problem.pointer, problem.rule) for problem in error.problems}) == len(error.problems), "something is told twice"
    found: dict[str, str] = {}
    for problem in error.problems:
        found[problem.pointer] = "; ".join(filter(None, (found.get(problem.pointer), problem.rule)))
    return found


GIB = Decimal(1024**3)

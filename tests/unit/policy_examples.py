"""Manifests to begin from in the tests of admission and rendering."""

import copy
from decimal import Decimal
from typing import Any

from shared.errors import InvalidError
from shared.policy import Admission, Policy, check

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
        found: dict[str, str] = {}
        for problem in error.problems:
            found[problem.pointer] = "; ".join(filter(None, (found.get(problem.pointer), problem.rule)))
        return found
    return {}


GIB = Decimal(1024**3)

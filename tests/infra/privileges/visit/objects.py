"""What the visitor brings along: manifests of every kind."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from typing import Any

from shared.clusters import names

LARGE = 500_000
"""Characters of noise: more than a manifest may have in the table, compressed."""


def a_job(name: str, **steering: Any) -> dict[str, Any]:
    """A small Job; keyword arguments steer the simulation."""
    annotations = {f"simulation.gpufleet.io/{key.replace('_', '-')}": str(value) for key, value in ({"duration": 0.5} | steering).items()}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": annotations}, "spec": POD}},
    }


def supporting(name: str) -> list[dict[str, Any]]:
    """A ConfigMap and a Service."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}
    return [config, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": _PORTS}]


def left_behind(name: str, kind: str, owner: dict[str, Any]) -> dict[str, Any]:
    """What another job of the fleet left behind under a name, whose Job has ended."""
    (found,) = (one for one in supporting(name) if f"{one['kind'].lower()}s" == kind)
    labels = {names.MANAGED: "true", names.JOB_ID: "01900000-0000-7000-8000-000000000000", names.EXECUTION: "1"}
    owned = {"apiVersion": "batch/v1", "kind": "Job", "name": owner["name"], "uid": owner["uid"]}
    return {**found, "metadata": {"name": name, "labels": labels, "ownerReferences": [owned]}}


def stray(found: dict[str, Any]) -> dict[str, Any]:
    """An object like the one of an execution, which nobody committed."""
    metadata = {name: found["metadata"][name] for name in ("labels", "annotations")}
    metadata["annotations"] = {**metadata["annotations"], names.RELEASED: "no"}
    template = found["spec"]["template"]
    labels = {name: value for name, value in template["metadata"].get("labels", {}).items() if "controller-uid" not in name}
    kept = {**template, "metadata": {**template["metadata"], "labels": {k: v for k, v in labels.items() if "job-name" not in k}}}
    spec = {"suspend": True, "backoffLimit": 0, "template": kept}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {**metadata, "name": f"{found['metadata']['name']}-stray"}, "spec": spec}


def noise(characters: int) -> str:
    """Text that doesn't compress, always the same."""
    return base64.b64encode(random.Random(characters).randbytes(characters * 3 // 4)).decode()


def noisy_config(name: str, characters: int) -> dict[str, Any]:
    """A ConfigMap of so many characters."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-noise"}, "data": {"noise": noise(characters)}}


_PORTS: dict[str, Any] = {"selector": {"app": "visit"}, "ports": [{"port": 80}]}

_LIMITS = {"cpu": "10m", "memory": "16Mi"}

POD: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [
        {"name": "main", "image": "busybox:1.36", "command": ["true"], "resources": {"limits": {"cpu": "10m", "memory": "16Mi"}}}
    ],
}


def _kind(api_version: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": f"visit-{kind.lower()}"}, **spec}


def _workload(kind: str, **more: Any) -> dict[str, Any]:
    pod = {"metadata": {"labels": {"app": "visit"}}, "spec": {**POD, "restartPolicy": "Always"}}
    return _kind("apps/v1", kind, {"spec": {"selector": {"matchLabels": {"app": "visit"}}, "template": pod, **more}})


KINDS: tuple[Mapping[str, Any], ...] = (
    _kind("v1", "ConfigMap", {"data": {"a": "b"}}),
    _kind("v1", "Service", {"spec": {"selector": {"app": "visit"}, "ports": [{"port": 80}]}}),
    _kind("v1", "Pod", {"spec": POD}),
    _kind("batch/v1", "Job", {"spec": a_job("any")["spec"]}),
    _kind("batch/v1", "CronJob", {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": a_job("any")["spec"]}}}),
    _workload("Deployment"),
    _workload("StatefulSet", serviceName="visit"),
    _workload("DaemonSet"),
    _kind("trainer.kubeflow.org/v1alpha1", "TrainJob", {"spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 1}}}),
)

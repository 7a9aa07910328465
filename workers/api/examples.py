"""Examples of bodies, for the description of the API: as they stand there, they can be sent."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict

JSON = dict[str, Any]


def shown(*examples: JSON) -> ConfigDict:
    """What a body's `model_config` says so that the description shows examples."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


def _job(name: str, image: str) -> JSON:
    container = {
        "name": "main",
        "image": image,
        "command": ["python", "-c", "import torch; print(torch.cuda.is_available())"],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": 1}},
    }
    toleration = {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    pod = {"restartPolicy": "Never", "tolerations": [toleration], "containers": [container]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"backoffLimit": 0, "template": {"spec": pod}}}


_IMAGE: Final = "pytorch/pytorch:2.5.0-cuda12.4-cudnn9-runtime"
_TEMPLATE: Final[JSON] = {
    "manifest": _job("{{ name }}", "{{ image }}"),
    "parameters": {"image": _IMAGE},
    "description": "Tells whether there is a GPU",
}

JOB: Final[JSON] = {"manifest": _job("train", _IMAGE), "target_region": "any", "priority": 10, "labels": {"team": "vision"}}
MANIFESTS: Final[JSON] = {"manifests": [_job("train", _IMAGE)], "namespace": "gco-jobs", "dry_run": True}
TEMPLATE: Final[JSON] = {"name": "gpu-check", **_TEMPLATE}
NEXT_VERSION: Final[JSON] = _TEMPLATE
FROM_TEMPLATE: Final[JSON] = {"name": "gpu-check-1", "namespace": "gco-jobs", "parameters": {"image": _IMAGE}}
WEBHOOK: Final[JSON] = {"url": "https://hooks.example.com/jobs", "events": ["job.completed", "job.failed"]}
DRAIN: Final[JSON] = {"reason": "new node images", "move": True, "interrupt": False}
RESUME: Final[JSON] = {"reason": "nodes are new"}
KEY: Final[JSON] = {"name": "ci", "rights": ["read", "submit"], "namespaces": ["gco-jobs"], "expires_in_seconds": 2592000}

"""The workers' manifests (infra/kubernetes/base, the files that its kustomization names), with an installation's image and settings."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import yaml

from infra.cdk.cluster import TOLERATED
from infra.cdk.nodes import POOL_LABEL, SYSTEM
from shared.settings import Settings

BASE: Final = Path(__file__).parents[1] / "kubernetes" / "base"
_SETTINGS: Final = "gpufleet-settings"
_IMAGE: Final = "gpufleet"
_JOBS_NAMESPACE: Final = "gco-jobs"
"""The namespace of jobs in the files; each that the settings name gets the same."""
_SHUTDOWN_SECONDS: Final = float(Settings.model_fields["shutdown_seconds"].default)
"""What the files' `terminationGracePeriodSeconds` are made for."""

Object = dict[str, Any]


def base_objects() -> list[Object]:
    """The objects of the base, in the order of its kustomization."""
    files = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return [one for name in files for one in yaml.safe_load_all((BASE / name).read_text(encoding="utf-8")) if one is not None]


def worker_objects(
    *,
    image: str,
    settings: Mapping[str, str],
    digest: str,
    namespaces: tuple[str, ...],
    replicas: Mapping[str, int],
    shutdown_seconds: float = _SHUTDOWN_SECONDS,
) -> list[Object]:
    """The objects of an installation's cluster.

    Pods are given as much longer to end than the files say as `shutdown_seconds` is longer than what these were made for: else the kubelet
    would kill a worker that still finishes what it has begun.
    `digest` changes when the settings do, and with nothing else: it is put on the pods, which read them when they start.
    """
    longer = max(0, math.ceil(shutdown_seconds - _SHUTDOWN_SECONDS))
    return [
        _patched(one, image=image, settings=settings, digest=digest, replicas=replicas, longer=longer)
        for found in base_objects()
        for one in _for_namespaces(found, namespaces)
    ]


def digest_of(settings: Mapping[str, str]) -> str:
    """A short digest of a pod's settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def _for_namespaces(found: Object, namespaces: tuple[str, ...]) -> Iterator[Object]:
    """An object of the namespace of jobs, once for each namespace of jobs; any other as it is."""
    named = found["kind"] == "Namespace" and found["metadata"]["name"] == _JOBS_NAMESPACE
    if not named and found["metadata"].get("namespace") != _JOBS_NAMESPACE:
        yield found
        return
    for namespace in namespaces:
        made = deepcopy(found)
        made["metadata"]["name" if named else "namespace"] = namespace
        yield made


def _patched(found: Object, *, image: str, settings: Mapping[str, str], digest: str, replicas: Mapping[str, int], longer: int) -> Object:
    made = deepcopy(found)
    if made["kind"] == "ConfigMap" and made["metadata"]["name"] == _SETTINGS:
        made["data"] = dict(settings)
    if made["kind"] == "Deployment":
        spec = made["spec"]
        spec["replicas"] = replicas.get(made["metadata"]["name"], spec["replicas"])
        template = spec["template"]
        template["metadata"].setdefault("annotations", {})["gpufleet.io/settings"] = digest
        pod = template["spec"]
        pod["terminationGracePeriodSeconds"] += longer
        pod["nodeSelector"] = pod.get("nodeSelector", {}) | {POOL_LABEL: SYSTEM}
        pod["tolerations"] = [*pod.get("tolerations", []), TOLERATED]
        for container in pod["containers"]:
            if container["image"] == _IMAGE:
                container["image"] = image
    return made

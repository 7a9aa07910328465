"""What the fleet fills in where a user says nothing, the same for jobs of the queue and for what is applied directly."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from shared.clusters import names

_IGNORE_DISRUPTION: Final = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
_UNDISTURBED: Final = {names.SAFE_TO_EVICT: "false", names.DO_NOT_DISRUPT: "true"}
_TEMPLATE: Final = ("spec", "template", "spec")
_POD_SPECS: Final = {
    "Job": _TEMPLATE,
    "Deployment": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
    "Pod": ("spec",),
}
"""Where a kind has the spec of its pods, beside their metadata. A TrainJob's is in the runtime that it refers to."""


def completed(manifest: dict[str, Any]) -> dict[str, Any]:
    """A copy of an admitted manifest with the fleet's defaults; it shares with the manifest what doesn't change."""
    kind = str(manifest["kind"])
    path = _POD_SPECS.get(kind)
    result = dict(manifest)
    if path is not None:
        pod = _own(result, *path)
        if kind in ("Job", "CronJob"):
            ignore_disruption(_own(result, *path[:-2]))
        complete_pod(pod)
        if pod.get("restartPolicy") in ("Never", "OnFailure"):
            template = _own(result, *path[:-1])
            template["metadata"] = undisturbed(template.get("metadata"))
    return result


def undisturbed(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """The metadata of pods that run to an end: no autoscaler ends them to save a node, unless their user says otherwise.

    A pod of a Job counts as one that can go elsewhere; what it has done so far is lost with it.
    """
    found = dict(metadata or {})
    found["annotations"] = {**_UNDISTURBED, **(found.get("annotations") or {})}
    return found


def complete_pod(pod: dict[str, Any]) -> None:
    """Give a pod no token of the API server's, unless its user asks for one: jobs have no use for it, and what breaks into them has."""
    if pod.get("automountServiceAccountToken") is None:
        pod["automountServiceAccountToken"] = False


def ignore_disruption(job_spec: dict[str, Any]) -> None:
    """Let evictions and lost spot nodes cost no attempt, where Kubernetes lets a Job say so and the user said nothing.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
    """
    never = job_spec["template"]["spec"].get("restartPolicy") == "Never"
    if never and job_spec.get("podFailurePolicy") is None and job_spec.get("podReplacementPolicy") in (None, "Failed"):
        job_spec["podFailurePolicy"] = deepcopy(_IGNORE_DISRUPTION)


def _own(document: dict[str, Any], *path: str) -> dict[str, Any]:
    """The object at the end of a path, with it and all on the way to it replaced by copies that may be changed."""
    found = document
    for key in path:
        found[key] = dict(found[key])
        found = found[key]
    return found

"""From a Job as a cluster has it back to a manifest from which the same can be made again, under another name.

Left out is what the cluster added and what would tie the new Job to the old one's pods or owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.clusters.names import reserved

_CONTROLLER_LABELS: Final = ("controller-uid", "job-name")
_CONTROLLER_PREFIX: Final = "batch.kubernetes.io/"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OF_THE_CLUSTER: Final = ("selector", "manualSelector", "suspend")


def manifest_of(job: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The manifest of a Job that does what `job` does; shares with it what doesn't change."""
    metadata = job["metadata"]
    spec = {key: value for key, value in job["spec"].items() if key not in _OF_THE_CLUSTER}
    template = spec["template"]
    spec["template"] = {**template, "metadata": _users(template.get("metadata") or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": metadata["namespace"], **_users(metadata)},
        "spec": spec,
    }


def _users(metadata: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The labels and annotations that are of the Job's user, not of a controller, of kubectl, or of the fleet."""
    result = {}
    for part in ("labels", "annotations"):
        kept = {key: value for key, value in (metadata.get(part) or {}).items() if _is_users(key)}
        if kept:
            result[part] = kept
    return result


def _is_users(key: str) -> bool:
    return not (key.startswith(_CONTROLLER_PREFIX) or key in (*_CONTROLLER_LABELS, _LAST_APPLIED) or reserved(key))

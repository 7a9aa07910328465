"""From a batch/v1 Job, as an API server gives it, to what the rules of jobs know of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from shared.clusters import names
from shared.jobs.model import PodCounts
from shared.jobs.ports import Observed

Document = Mapping[str, Any]
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
"""Label that the API server writes into a Job's pod template: the Job's UID. It stays on pods that lose their Job."""


def observed(job: Document) -> Observed | None:
    """What a Job says; None for one that isn't the fleet's: without its label, or without the annotations that say whose it is."""
    metadata: Document = job.get("metadata") or {}
    annotations: Document = metadata.get("annotations") or {}
    execution = str(annotations.get(names.EXECUTION, ""))
    job_id = annotations.get(names.JOB_ID)
    if (metadata.get("labels") or {}).get(names.MANAGED) != "true" or not job_id or not execution.isdecimal():
        return None
    status: Document = job.get("status") or {}
    complete, failed = condition(status, "Complete"), condition(status, "Failed")
    ended = failed or complete or {}
    return Observed(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        resource_version=metadata.get("resourceVersion", ""),
        job_id=str(job_id),
        execution=int(execution),
        spec_hash=str(annotations.get(names.SPEC_HASH, "")),
        released=str(annotations.get(names.RELEASED, "no")),
        suspended=bool((job.get("spec") or {}).get("suspend")),
        deleting=metadata.get("deletionTimestamp") is not None,
        ready=int(status.get("ready") or 0),
        pods=PodCounts(**{name: int(status.get(name) or 0) for name in PodCounts.model_fields}),
        complete=complete is not None,
        failed_reason=(failed.get("reason") or "Failed") if failed else None,
        failed_message=failed.get("message") if failed else None,
        started_at=moment(status.get("startTime")),
        finished_at=moment(status.get("completionTime") or ended.get("lastTransitionTime")),
        created_at=moment(metadata.get("creationTimestamp")),
    )


def condition(status: Document, kind: str) -> Document | None:
    """The condition of a type, if it is true."""
    return next((one for one in status.get("conditions") or () if one.get("type") == kind and one.get("status") == "True"), None)


def moment(text: str | None) -> datetime | None:
    """An RFC 3339 time of an API server, aware."""
    return datetime.fromisoformat(text) if text else None


def disruption(pod: Document) -> str | None:
    """Why a pod lost its machine, by its condition DisruptionTarget; None where it didn't.

    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    found = condition(pod.get("status") or {}, "DisruptionTarget")
    if found is None:
        return None
    return ": ".join(part for part in (found.get("reason"), found.get("message")) if part) or "DisruptionTarget"


def is_orphan(pod: Document, *, of: str) -> bool:
    """Whether a pod was made for the Job of that UID, and has neither an owner any more nor anybody who is deleting it.

    https://kubernetes.io/docs/concepts/architecture/garbage-collection/#orphaned-dependents
    """
    metadata: Document = pod["metadata"]
    if metadata.get("ownerReferences") or metadata.get("deletionTimestamp") is not None:
        return False
    return (metadata.get("labels") or {}).get(CONTROLLER_UID) == of


def owner_of(job: Document) -> str:
    """Who seems to own an object, in words for a message about a name that is taken."""
    metadata: Document = job.get("metadata") or {}
    annotations: Document = metadata.get("annotations") or {}
    labels: Document = metadata.get("labels") or {}
    if annotations.get(names.JOB_ID):
        return f"job {annotations[names.JOB_ID]}, execution {annotations.get(names.EXECUTION)}, of a fleet like this one"
    for reference in metadata.get("ownerReferences") or ():
        return f"{reference.get('kind')} {reference.get('name')}"
    for label in ("app.kubernetes.io/managed-by", "helm.sh/chart"):
        if labels.get(label):
            return str(labels[label])
    managers = [
        str(entry["manager"]) for entry in metadata.get("managedFields") or () if entry.get("manager") and not entry.get("subresource")
    ]
    return managers[0] if managers else "unknown"

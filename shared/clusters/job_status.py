"""How a batch/v1 Job stands, in one word, from its document alone.

Only the conditions Complete and Failed end a Job. Counts of pods don't: a pod that failed inside `backoffLimit` is followed by another, and
FailureTarget and SuccessCriteriaMet say what the end will be while pods still go.
https://kubernetes.io/docs/concepts/workloads/controllers/job/#terminal-job-conditions
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from shared.clusters.observed import Document, condition


class ComputedStatus(StrEnum):
    """The four words of the GCO door."""

    PENDING = "pending"  # suspended, or no pod of it runs
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


_ENDING: Final = ("FailureTarget", "SuccessCriteriaMet")


def computed_status(job: Document) -> ComputedStatus:
    """The word for a Job's document."""
    status: Document = job.get("status") or {}
    if condition(status, "Failed"):
        return ComputedStatus.FAILED
    if condition(status, "Complete"):
        return ComputedStatus.SUCCEEDED
    if (job.get("spec") or {}).get("suspend"):
        return ComputedStatus.PENDING
    ends = any(condition(status, kind) for kind in _ENDING)
    return ComputedStatus.RUNNING if ends or _running(status) > 0 else ComputedStatus.PENDING


def finished(job: Document) -> bool:
    """Whether a Job has ended."""
    return computed_status(job) in (ComputedStatus.SUCCEEDED, ComputedStatus.FAILED)


def _running(status: Document) -> int:
    """Pods that run. `active` counts those that still wait for a place as well; clusters before 1.24 tell no `ready`."""
    ready = status.get("ready")
    return int(ready if ready is not None else status.get("active") or 0)

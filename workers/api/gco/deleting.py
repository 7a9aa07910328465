"""Deleting a Job through the API: one of the fleet's queue is cancelled first, so that its end is what its user meant."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from shared.clusters.api import KubernetesApi
from shared.clusters.deleting import delete_first
from shared.clusters.job_documents import read_job
from shared.clusters.job_lists import JobFilter
from shared.clusters.job_status import computed_status, finished
from shared.clusters.logs import ClusterLogs
from shared.clusters.observed import Document, observed
from shared.errors import ConflictError, NotFoundError
from shared.identity.callers import Caller
from shared.jobs.model import Head
from shared.jobs.ports import Observed
from workers.api.core import Core

REASON: Final = "deleted through the API"
END_SECONDS: Final = 5.0
"""How long the observer may take to see that a Job has ended, before its deletion counts as a cancel."""
_LOOK_SECONDS: Final = 0.2


class ReplacedError(ConflictError):
    """The name has another UID than the one that is meant."""


class ChangedError(ConflictError):
    """The Job isn't one of those that are meant any more."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """A Job that is deleted, by its UID. `ours`: this deletion did it, and the Job wasn't about to go before."""

    uid: str
    ours: bool


async def delete_job(
    core: Core, caller: Caller, namespace: str, name: str, *, expected_uid: str | None = None, only: JobFilter | None = None
) -> Deletion:
    """Delete a Job with its pods. Whether the caller may do this in the namespace is for the route to check.

    Raises:
        NotFoundError: there is no such Job.
        ReplacedError: its UID isn't the expected one.
        ChangedError: it isn't one of `only`.
        ConflictError: its UID changed before the deletion.
    """
    api = await core.cluster()
    job = await read_job(api, namespace, name)
    uid = str(job["metadata"]["uid"])
    if expected_uid is not None and uid != expected_uid:
        raise ReplacedError(f"Job '{name}' UID changed; expected '{expected_uid}', found '{uid}'")
    if only is not None and not only.takes(job):
        raise ChangedError(f"Job '{name}' has changed: it is {computed_status(job)}")
    cancelled = await _cancel_owner(core, caller, api, job)
    # Of a job that is cancelled here the fleet deletes the object too, and may be faster.
    return Deletion(uid, ours=await delete_first(api, job) or cancelled)


async def _cancel_owner(core: Core, caller: Caller, api: KubernetesApi, job: Document) -> bool:
    """Cancel the queue's job that a Kubernetes Job is of, and keep its logs, where that one hasn't ended and means this object.

    Without it, an object that is gone would count as "deleted on the cluster", a failure. What has ended on the cluster is given a moment
    to be told as it ended.
    """
    seen = observed(job)
    if seen is None:
        return False
    head = await _unended(core, seen, patience=END_SECONDS if finished(job) else 0.0)
    if head is None:
        return False
    try:
        head = await core.cancellation.cancel(head.id, reason=REASON, by=caller.name)
    except (ConflictError, NotFoundError):
        return False  # it ended in between
    await ClusterLogs(api, core.objects).keep(head)
    return True


async def _unended(core: Core, seen: Observed, *, patience: float) -> Head | None:
    """The head of an object's job, if the object is of its execution, and that one still hasn't ended when patience has."""
    until = asyncio.get_running_loop().time() + patience
    while True:
        head = await core.jobs.head(seen.job_id)
        if head is None or head.state.terminal or not _means(head, seen):
            return None
        if asyncio.get_running_loop().time() >= until:
            return head
        await asyncio.sleep(_LOOK_SECONDS)


def _means(head: Head, seen: Observed) -> bool:
    """Whether an object is that of the head's execution, or one that may yet become it."""
    return head.execution == seen.execution and (head.object is None or head.object.uid == seen.uid)

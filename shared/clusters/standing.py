"""What is wanted on a cluster, and what stands there under the same name: looked at before anything is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.errors import NOTHING_DONE, MissingError, QuotaError, RejectedError
from shared.clusters.job_status import computed_status, finished
from shared.clusters.kinds import JOB, Kind
from shared.clusters.observed import Document
from shared.errors import UnavailableError
from shared.jobs.patience import patiently

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One object that is wanted; its document carries the namespace."""

    kind: Kind
    namespace: str
    name: str
    document: Mapping[str, Any]
    replaces: bool = True
    """Whether a Job may take the place of one that has finished."""

    @property
    def path(self) -> str:
        """The path of the object."""
        return self.kind.path(self.namespace, self.name)

    @property
    def is_job(self) -> bool:
        """Whether it is a Job, which runs once and is never changed."""
        return self.kind is JOB

    def annotated(self, **metadata: Any) -> dict[str, Any]:
        """The document with more in its metadata."""
        return {**self.document, "metadata": {**self.document["metadata"], **metadata}}

    def __str__(self) -> str:
        """What messages call it."""
        return f"{self.kind.kind} {self.namespace}/{self.name}"


async def insist(call: Callable[[], Awaitable[T]], *, until: float) -> T:
    """Call what may come twice until it answers, or the event loop's time has reached `until`.

    A quota that is used up is a refusal here: somebody waits for the answer, and it may pass in hours. One of `errors.NOTHING_DONE` is
    raised only if no try may have done anything. Raises ApiError, UnavailableError.
    """
    is_open = False

    async def once() -> T:
        nonlocal is_open
        try:
            return await call()
        except UnavailableError as error:
            is_open = is_open or not isinstance(error, NOTHING_DONE)
            if is_open:
                raise UnavailableError(str(error), retry_after=error.retry_after) from error
            if isinstance(error, QuotaError):
                raise RejectedError(str(error), code=403, reason="Forbidden") from error
            raise

    return await patiently(once, until=until)


async def look(api: KubernetesApi, target: Target) -> dict[str, Any] | None:
    """What stands under the name; None where nothing does (or the cluster doesn't know the kind). Raises UnavailableError, ApiError."""
    try:
        return await api.request("GET", target.path)
    except MissingError:
        return None


def objection(target: Target, standing: Document | None) -> str | None:
    """Why what stands may not be written over or replaced; None where it may."""
    if standing is None:
        return None
    uid = standing["metadata"].get("uid")
    if is_managed(standing):
        return f"{target} is of job {job_of(standing)} in the fleet's queue, whose objects are never overwritten: use another name"
    if target.is_job:
        state = computed_status(standing)
        if finished(standing):
            return None if target.replaces else f"{target} exists already ({state}, UID {uid})"
        return f"{target} is active ({state}, UID {uid}): wait for its end, delete it, or use another name"
    if standing["metadata"].get("deletionTimestamp") is not None:
        return f"{target} (UID {uid}) is being deleted: submit again when it is gone"
    return None


def is_managed(document: Document) -> bool:
    """Whether an object is of a job in the fleet's queue."""
    return (document["metadata"].get("labels") or {}).get(names.MANAGED) == "true"


def job_of(document: Document) -> str | None:
    """The id of the job in the fleet's queue that an object is of, as far as its labels say."""
    found = (document["metadata"].get("labels") or {}).get(names.JOB_ID)
    return str(found) if found else None

"""Deleting many Jobs through the API, each on its own: that one fails is no reason to leave the others, and none is left untold."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from shared.clusters.job_lists import JobFilter, JobOrder, SortField, list_jobs
from shared.errors import FleetError, NotFoundError, UnavailableError
from shared.identity.callers import Caller
from shared.jobs.patience import patiently
from workers.api.core import Core
from workers.api.gco.deleting import ChangedError, ReplacedError, delete_job

MOST: Final = 1000
"""Deletions in one request."""
AT_ONCE: Final = 16
"""Deletions under way; more would keep other requests from the cluster's connections."""
SECONDS: Final = 20.0
"""After these no deletion begins: the client should hear what was done before a proxy gives up (API Gateway: 29 s)."""

_UNKNOWN: Final = "the cluster or the fleet does not answer: whether the Job is deleted isn't known"
_GONE: Final = "gone already, or about to go"


async def delete_all(core: Core, caller: Caller, namespaces: tuple[str, ...], which: JobFilter, *, dry_run: bool) -> dict[str, Any]:
    """Delete what fulfils a filter, the oldest first; returns the fields of `BulkDeleteAnswer` but `dry_run`.

    A Job counts as deleted when the cluster has answered a deletion of this request so. One that was gone before, whoever deleted it, or
    that has changed so that it isn't meant any more, is skipped. Raises the errors of `list_jobs`, before anything is deleted.
    """
    oldest_first = JobOrder(by=SortField.CREATED_AT, descending=False)
    page = await list_jobs(await core.cluster(), namespaces, which=which, order=oldest_first, offset=0, limit=MOST)
    done = _Done(total=page.total)
    if dry_run:
        done.deleted = [_name(job) for job in page.jobs]
        return done.fields(deleted_count=0)
    places = asyncio.Semaphore(AT_ONCE)
    until = asyncio.get_running_loop().time() + SECONDS

    async def delete(job: dict[str, Any]) -> None:
        async with places:
            if asyncio.get_running_loop().time() < until:
                await _delete(core, caller, job, which, until, done)

    await asyncio.gather(*map(delete, page.jobs))
    return done.fields(deleted_count=len(done.deleted))


@dataclass(kw_only=True)
class _Done:
    """What has come of the Jobs that match."""

    total: int
    deleted: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)

    def fields(self, *, deleted_count: int) -> dict[str, Any]:
        return {
            "total_matched": self.total,
            "deleted_count": deleted_count,
            "failed_count": len(self.failed),
            "skipped_count": len(self.skipped),
            "jobs": self.deleted,
            "failed": self.failed or None,
            "skipped": self.skipped or None,
            "remaining": self.total - len(self.deleted) - len(self.failed) - len(self.skipped),
        }


async def _delete(core: Core, caller: Caller, job: dict[str, Any], which: JobFilter, until: float, done: _Done) -> None:
    """Delete a Job, and note what came of it. Asked again while there is no answer: by its UID it may be deleted twice."""
    name, namespace, uid = (job["metadata"][key] for key in ("name", "namespace", "uid"))
    try:
        deletion = await patiently(lambda: delete_job(core, caller, namespace, name, expected_uid=uid, only=which), until=until)
    except (NotFoundError, ReplacedError):
        done.skipped.append(_name(job) | {"reason": _GONE})
    except ChangedError as changed:
        done.skipped.append(_name(job) | {"reason": str(changed)})
    except UnavailableError:
        done.failed.append(_name(job) | {"error": _UNKNOWN})
    except FleetError as error:
        done.failed.append(_name(job) | {"error": str(error)})
    else:
        if deletion.ours:
            done.deleted.append(_name(job))
        else:
            done.skipped.append(_name(job) | {"reason": _GONE})


def _name(job: dict[str, Any]) -> dict[str, str]:
    return {key: job["metadata"][key] for key in ("name", "namespace")}

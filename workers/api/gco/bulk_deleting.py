"""Deleting many Jobs through the API, each on its own: that one fails is no reason to leave the others, and none is left untold."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from shared.clusters.job_lists import JobFilter, JobOrder, SortField, list_jobs
from shared.errors import FleetError, NotFoundError, UnavailableError
from shared.identity.callers import Caller
from shared.jobs.patience import patiently
from workers.api.core import Core
from workers.api.gco.deleting import delete_job

MOST: Final = 1000
"""Deletions in one request."""
AT_ONCE: Final = 16
"""Deletions under way; more would keep other requests from the cluster's connections."""
SECONDS: Final = 20.0
"""After these no deletion begins: the client should hear what was done before a proxy gives up (API Gateway: 29 s)."""

_UNKNOWN: Final = "the cluster or the fleet does not answer: whether the Job is deleted isn't known"


async def delete_all(core: Core, caller: Caller, namespaces: tuple[str, ...], which: JobFilter, *, dry_run: bool) -> dict[str, Any]:
    """Delete what fulfils a filter, the oldest first; returns the fields of `BulkDeleteAnswer` but `dry_run`.

    A Job that somebody else was faster to delete is gone, and so counts as deleted. Raises the errors of `list_jobs`, before anything is
    deleted.
    """
    oldest_first = JobOrder(by=SortField.CREATED_AT, descending=False)
    page = await list_jobs(await core.cluster(), namespaces, which=which, order=oldest_first, offset=0, limit=MOST)
    gone: list[dict[str, str]] = []
    failed: list[dict[str, str]] = []
    if dry_run:
        listed = [_name(job) for job in page.jobs]
        return _fields(total=page.total, deleted=0, jobs=listed, failed=failed, remaining=page.total - len(listed))
    places = asyncio.Semaphore(AT_ONCE)
    until = asyncio.get_running_loop().time() + SECONDS

    async def delete(job: dict[str, Any]) -> None:
        async with places:
            if asyncio.get_running_loop().time() >= until:
                return
            error = await _delete(core, caller, job, which, until)
        if error is None:
            gone.append(_name(job))
        else:
            failed.append(_name(job) | {"error": error})

    await asyncio.gather(*map(delete, page.jobs))
    left = page.total - len(gone) - len(failed)
    return _fields(total=page.total, deleted=len(gone), jobs=gone, failed=failed, remaining=left)


async def _delete(core: Core, caller: Caller, job: dict[str, Any], which: JobFilter, until: float) -> str | None:
    """Why a Job was not deleted; None where it is gone. Asked again while there is no answer: by its UID it may be deleted twice."""
    name, namespace, uid = (job["metadata"][key] for key in ("name", "namespace", "uid"))
    try:
        await patiently(lambda: delete_job(core, caller, namespace, name, expected_uid=uid, only=which), until=until)
    except NotFoundError:
        return None
    except UnavailableError:
        return _UNKNOWN
    except FleetError as error:
        return str(error)
    return None


def _name(job: dict[str, Any]) -> dict[str, str]:
    return {key: job["metadata"][key] for key in ("name", "namespace")}


def _fields(*, total: int, deleted: int, jobs: list[dict[str, str]], failed: list[dict[str, str]], remaining: int) -> dict[str, Any]:
    return {
        "total_matched": total,
        "deleted_count": deleted,
        "failed_count": len(failed),
        "jobs": jobs,
        "failed": failed or None,
        "remaining": remaining,
    }

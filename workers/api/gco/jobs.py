"""Jobs of the cluster, many at once: the list and the deletions of the GCO door."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Query

from shared.clusters import job_lists
from shared.clusters.job_lists import JobFilter, JobOrder, SortField
from shared.identity.callers import Caller
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader, Submitter
from workers.api.errors import answers
from workers.api.gco import deleting
from workers.api.gco.bulk_deleting import delete_all
from workers.api.gco.job_schemas import (
    BulkDeleteAnswer,
    BulkDeleteRequest,
    JobDeletedAnswer,
    JobsAnswer,
    JobStatus,
    LabelSelector,
    ListedJob,
    Sort,
)
from workers.api.gco.translation import allowed_namespace, env

MAX_OFFSET: Final = 100_000
"""What stands before a page is held while the page is looked for: a kilobyte a Job."""

router = APIRouter(prefix="/api/v1/jobs", tags=["Jobs"], route_class=StrictRoute)


@router.get("", responses=answers(401, 403, 422, 429, 502, 503))
async def list_jobs(
    core: CoreOf,
    caller: Reader,
    namespace: str | None = None,
    status: JobStatus | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    offset: Annotated[int, Query(ge=0, le=MAX_OFFSET)] = 0,
    sort: Sort = "createdAt:desc",
    label_selector: LabelSelector | None = None,
) -> JobsAnswer:
    """List the Jobs of the cluster, newest first. Jobs that are equal in the order stand by namespace and name."""
    namespaces = _namespaces(core, caller, namespace)
    page = await job_lists.list_jobs(
        await core.cluster(),
        namespaces,
        which=_filter(status=status, label_selector=label_selector),
        order=_order(sort),
        offset=offset,
        limit=limit,
    )
    jobs = [ListedJob.model_validate(job) for job in page.jobs]
    has_more = offset + len(jobs) < page.total
    return JobsAnswer(**env(core), total=page.total, limit=limit, offset=offset, has_more=has_more, count=len(jobs), jobs=jobs)


@router.delete("", responses=answers(401, 403, 413, 422, 429, 502, 503))
async def bulk_delete_jobs(body: BulkDeleteRequest, core: CoreOf, caller: Submitter) -> BulkDeleteAnswer:
    """Delete the Jobs that fulfil all conditions, the oldest first, at most 1,000; jobs of the queue among them are cancelled.

    Each is looked at again before it is deleted, by its UID. What came of every one is told.
    """
    before = core.clock.now() - timedelta(days=body.older_than_days) if body.older_than_days is not None else None
    which = _filter(status=body.status, label_selector=body.label_selector, created_before=before)
    deleted = await delete_all(core, caller, _namespaces(core, caller, body.namespace), which, dry_run=body.dry_run)
    return BulkDeleteAnswer(**env(core), dry_run=body.dry_run, **deleted)


@router.delete("/{namespace}/{name}", responses=answers(401, 403, 404, 409, 422, 429, 502, 503))
async def delete_job(
    namespace: str,
    name: str,
    core: CoreOf,
    caller: Submitter,
    expected_uid: Annotated[str | None, Query(min_length=1, max_length=128)] = None,
) -> JobDeletedAnswer:
    """Delete a Job with its pods; a job of the queue is cancelled. With `expected_uid`, only the Job that has it."""
    allowed_namespace(core, caller, namespace)
    deleted = await deleting.delete_job(core, caller, namespace, name, expected_uid=expected_uid)
    return JobDeletedAnswer(
        **env(core),
        job_name=name,
        namespace=namespace,
        uid=deleted.uid if expected_uid is not None else None,
        status="deleted",
        message=f"Job '{name}' deleted",
    )


def _namespaces(core: Core, caller: Caller, namespace: str | None) -> tuple[str, ...]:
    """The one that is asked for, or all that are the caller's. Raises ForbiddenError."""
    if namespace is None:
        return caller.within(core.policy.allowed_namespaces)
    return (allowed_namespace(core, caller, namespace),)


def _filter(*, status: JobStatus | None, label_selector: str | None, created_before: datetime | None = None) -> JobFilter:
    word = status.computed if status is not None else None
    return JobFilter(status=word, label_selector=(label_selector or "").strip(), created_before=created_before)


def _order(sort: str) -> JobOrder:
    by, _, direction = sort.partition(":")
    return JobOrder(by=SortField(by), descending=direction == "desc")

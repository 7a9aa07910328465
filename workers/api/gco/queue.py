"""The job-queue group of the GCO door."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response

from shared.clusters.json_bodies import THREAD_BYTES
from shared.errors import NotFoundError
from shared.ids import is_job_id
from shared.jobs.model import Head
from shared.jobs.states import State
from shared.jobs.submission import JobRequest, Submitted
from workers.api.bodies import JobRoute
from workers.api.core import Core
from workers.api.dependencies import Administrator, CoreOf, Reader, Submitter
from workers.api.errors import answers
from workers.api.gco import pages
from workers.api.gco.schemas import (
    JobAnswer,
    JobListAnswer,
    JobMessageAnswer,
    MessageAnswer,
    PollAnswer,
    PollResult,
    QueuedJob,
    QueuedJobRequest,
    StatsAnswer,
    StatsSummary,
)
from workers.api.gco.translation import filters_of, history_of_events, history_of_head, record

_REPLAY: dict[int | str, dict[str, Any]] = {
    200: {"model": JobMessageAnswer, "description": "The job that this idempotency key has made already, as it stands"}
}

router = APIRouter(prefix="/api/v1/queue", tags=["Job Queue"], route_class=JobRoute)


@router.post(
    "/jobs", status_code=201, response_model_exclude_unset=True, responses={**_REPLAY, **answers(401, 403, 409, 413, 422, 429, 503)}
)
async def submit_job_to_queue(
    body: QueuedJobRequest,
    core: CoreOf,
    caller: Submitter,
    request: Request,
    response: Response,
    idempotency_key: Annotated[str | None, Header(alias="Idempotency-Key")] = None,
) -> JobMessageAnswer:
    """Queue a job. The manifest is checked against the whole policy now, not when it is applied."""
    wanted = body.request(scope=caller.scope, idempotency_key=idempotency_key, submitted_by=caller.name)
    if wanted.namespace in core.policy.allowed_namespaces:  # any other is refused with whatever else is wrong
        caller.require_namespace(wanted.namespace)
    submitted = await _submit(core, wanted, large=len(await request.body()) > THREAD_BYTES)
    if submitted.created:
        job = record(submitted.head, body.manifest, history_of_head(submitted.head))
        return JobMessageAnswer(timestamp=core.clock.now(), message="Job queued", job=job)
    response.status_code = 200
    return JobMessageAnswer(timestamp=core.clock.now(), message="Idempotent job replay", job=await _full(core, submitted.head))


@router.get("/jobs", response_model_exclude_unset=True, responses=answers(401, 403, 422, 429, 503))
async def list_queued_jobs(
    core: CoreOf,
    caller: Reader,
    target_region: str | None = None,
    status: str | None = None,
    namespace: str | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=2048)] = None,
) -> JobListAnswer:
    """List jobs, newest first: those of the caller's namespaces, where he is bound to some."""
    filters = filters_of(core, caller, region=target_region, status=status, namespace=namespace)
    page = await pages.page(core, filters, limit=limit, cursor=cursor)
    return JobListAnswer(timestamp=core.clock.now(), count=len(page.jobs), jobs=page.jobs, next_cursor=page.cursor, partial=page.partial)


@router.get("/jobs/{job_id}", response_model_exclude_unset=True, responses=answers(401, 403, 404, 422, 429, 503))
async def get_queued_job(job_id: str, core: CoreOf, caller: Reader) -> JobAnswer:
    """One job, by a consistent read. One of a namespace that isn't the caller's is not found."""
    head = await core.jobs.head(job_id) if is_job_id(job_id) else None
    if head is None or not caller.sees(head.namespace):
        raise NotFoundError("Job", job_id)
    return JobAnswer(timestamp=core.clock.now(), job=await _full(core, head))


@router.delete("/jobs/{job_id}", responses=answers(401, 403, 404, 409, 422, 429, 503))
async def cancel_queued_job(
    job_id: str, core: CoreOf, caller: Submitter, reason: Annotated[str | None, Query(max_length=512)] = None
) -> MessageAnswer:
    """Cancel a job in any state that is not terminal. One that runs is stopped on its cluster, and is cancelled when that is done."""
    reason = reason or "cancelled through the API"
    head = await core.cancellation.cancel(job_id, reason=reason, by=caller.name, within=caller.namespaces)
    message = f"Job '{head.id}' cancelled"
    if head.state is not State.CANCELLED:
        message = f"Job '{head.id}' is being stopped on its cluster; it is cancelled when nothing of it runs any more"
    return MessageAnswer(timestamp=core.clock.now(), message=message)


@router.get("/stats", responses=answers(401, 403, 422, 429, 503))
async def get_queue_stats(core: CoreOf, caller: Reader) -> StatsAnswer:
    """How many jobs of all namespaces stand in each state, from counters; those count no namespace apart."""
    caller.require_all_namespaces("counting the queue's jobs")
    counts = await core.counters.by_region(core.settings.regions)
    total = sum(sum(states.values()) for states in counts.values())
    summary = StatsSummary(
        total_jobs=total,
        total_queued=sum(states[State.QUEUED] for states in counts.values()),
        total_running=sum(states[State.RUNNING] for states in counts.values()),
        complete=True,
        records_evaluated=total,
    )
    by_region = {region: {state.value: number for state, number in states.items()} for region, states in counts.items()}
    return StatsAnswer(timestamp=core.clock.now(), summary=summary, by_region=by_region)


@router.post("/poll", responses=answers(401, 403, 422, 429, 503))
async def poll_and_process_jobs(core: CoreOf, caller: Administrator, limit: Annotated[int, Query(ge=1, le=20)] = 5) -> PollAnswer:
    """Run one dispatch pass in the region that this API serves."""
    caller.require_all_namespaces("a dispatch pass")
    if core.poll is None:
        detail = f"this process reaches no cluster; the dispatcher of {core.region} claims its jobs"
        raise HTTPException(503, detail=detail, headers={"Retry-After": "60"})
    results = [PollResult(job_id=one.job_id, status=one.status) for one in await core.poll(limit)]
    return PollAnswer(
        timestamp=core.clock.now(), region=core.region, jobs_polled=len(results), jobs_processed=len(results), results=results
    )


async def _submit(core: Core, wanted: JobRequest, *, large: bool) -> Submitted:
    if not large:
        return await core.submission.submit(wanted)
    async with core.gate.prepared(wanted):
        return await core.submission.submit(wanted)


async def _full(core: Core, head: Head) -> QueuedJob:
    specification = (await core.jobs.specifications([head])).get(head.id)
    events = await core.history.events(head.id)
    return record(head, specification.manifest if specification else {}, history_of_events(events))

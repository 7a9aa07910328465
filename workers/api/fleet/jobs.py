"""A job in full: record, events, executions, logs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from shared.errors import NotFoundError
from shared.identity.callers import Caller
from shared.ids import is_job_id
from shared.jobs.model import Head
from shared.jobs.spending import so_far
from shared.jobs.states import State
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader
from workers.api.errors import answers
from workers.api.fleet import following, logs
from workers.api.fleet.log_positions import decode
from workers.api.fleet.schemas import EventsAnswer, ExecutionsAnswer, JobClaim, JobCost, JobDetail
from workers.api.following import EVENTS_TYPE, FollowingResponse

_MADE = {"claim", "cost", "executions", "held", "manifest", "state", "supporting"}
_COPIED = tuple(name for name in JobDetail.model_fields if name not in _MADE)
_TEXT = {
    "content": {
        "text/plain": {"schema": {"type": "string"}},
        EVENTS_TYPE: {
            "schema": {
                "type": "string",
                "description": (
                    "With `follow`, for who accepts it: as from `GET /api/v1/jobs/{namespace}/{name}/logs`, each with its `execution`. "
                    "`outcome` of the last event is the job's state."
                ),
            }
        },
    },
    "description": "The log; with `follow`, as it is written",
}

router = APIRouter(prefix="/jobs", tags=["Fleet: jobs"], route_class=StrictRoute)


@router.get("/{job_id}", responses=answers(401, 403, 404, 422, 429, 503))
async def get_job(job_id: str, core: CoreOf, caller: Reader) -> JobDetail:
    """All that is known of a job, by consistent reads."""
    head = await _head(core, caller, job_id)
    specification = (await core.jobs.specifications([head])).get(head.id)
    return JobDetail(
        **{name: getattr(head, name) for name in _COPIED},
        state=head.state.value,
        claim=JobClaim.model_validate(head.claim.model_dump(exclude={"nonce"})) if head.claim else None,
        cost=JobCost.of(so_far(head)),
        manifest=specification.manifest if specification else {},
        supporting=specification.supporting if specification else [],
        executions=await core.history.executions(head),
        held=await _held(core, head),
    )


@router.get("/{job_id}/events", responses=answers(401, 403, 404, 422, 429, 503))
async def get_events(job_id: str, core: CoreOf, caller: Reader) -> EventsAnswer:
    """The job's history, oldest first."""
    if caller.namespaces is not None:
        await _head(core, caller, job_id)
    events = await core.history.events(job_id) if is_job_id(job_id) else []
    if not events:
        raise NotFoundError("Job", job_id)
    return EventsAnswer(job_id=job_id, events=events)


@router.get("/{job_id}/executions", responses=answers(401, 403, 404, 422, 429, 503))
async def get_executions(job_id: str, core: CoreOf, caller: Reader) -> ExecutionsAnswer:
    """The job's executions, oldest first."""
    head = await _head(core, caller, job_id)
    return ExecutionsAnswer(job_id=job_id, executions=await core.history.executions(head))


@router.get("/{job_id}/logs", response_class=StreamingResponse, responses={200: _TEXT, **answers(401, 403, 404, 409, 422, 429, 503)})
async def get_logs(
    job_id: str,
    core: CoreOf,
    caller: Reader,
    execution: Annotated[int | None, Query(ge=1)] = None,
    pod: Annotated[str | None, Query(max_length=253)] = None,
    container: Annotated[str | None, Query(max_length=63)] = None,
    tail: Annotated[int | None, Query(ge=1, le=100_000)] = None,
    follow: bool = False,
    accept: Annotated[list[str] | None, Header(include_in_schema=False)] = None,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", description="Where earlier events are gone on from")] = None,
) -> StreamingResponse:
    """What the containers of an execution wrote: kept logs of one that has ended, live ones of one that runs.

    Followed, until the job has ended: as server-sent events for who accepts these, as plain text for everybody else.
    """
    head = await _head(core, caller, job_id)
    wanted = logs.Wanted(execution=execution, pod=pod, container=container, tail=tail)
    if execution is not None and execution > head.execution:
        raise NotFoundError("Execution", f"{head.id}/{execution}")
    if not follow:
        return StreamingResponse(await logs.read(core, head, wanted), media_type="text/plain; charset=utf-8")
    as_events = any(EVENTS_TYPE in one for one in accept or ())
    position = decode(last_event_id) if last_event_id and as_events else None
    follower = following.JobFollower(core, head, wanted, position)
    chunks = following.events(follower) if as_events else following.text(follower)
    return FollowingResponse(chunks, core.following, events=as_events)


async def _held(core: Core, head: Head) -> str | None:
    """Asked of queued jobs only; so it is told of no other, and costs no other a read."""
    if head.state is not State.QUEUED:
        return None
    status = await core.regions.status(head.region)
    return status.told if status.drained else None


async def _head(core: Core, caller: Caller, job_id: str) -> Head:
    """The head of a job that the caller may see; any other isn't found, so that an id tells nothing."""
    head = await core.jobs.head(job_id) if is_job_id(job_id) else None
    if head is None or not caller.sees(head.namespace):
        raise NotFoundError("Job", job_id)
    return head

"""The logs of a Job's pods through the GCO door: as they stand, or followed to the Job's end as server-sent events."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Header, HTTPException, Query, Response

from shared.clusters.api import KubernetesApi
from shared.clusters.container_states import containers_of, init_containers_of
from shared.clusters.job_documents import read_job
from shared.clusters.job_pods import pod_selector
from shared.clusters.kinds import POD
from shared.clusters.log_following import LogFollower
from shared.clusters.log_items import Choice
from shared.clusters.log_positions import decode
from shared.clusters.log_reading import (
    Asked,
    NoLogError,
    PodLog,
    chosen_container,
    newest_pods,
    pod_of_job,
    read_pod,
    read_pods,
    require_started,
    together,
)
from shared.clusters.observed import Document
from shared.errors import InvalidError, Problem
from shared.identity.callers import Caller
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader
from workers.api.errors import answers
from workers.api.following import FollowingResponse
from workers.api.gco.log_schemas import EVENTS, JobLogsAnswer, PodLogPart, PodLogsAnswer
from workers.api.gco.translation import allowed_namespace, env
from workers.api.log_events import log_event

Container: TypeAlias = Annotated[str | None, Query(max_length=63, description="Without it the pod's default container, or the first one")]
Tail: TypeAlias = Annotated[int, Query(ge=1, le=10_000, description="The last lines; with `follow`, of what stands there already")]
Previous: TypeAlias = Annotated[bool, Query(description="Of the run before the present one")]
SinceSeconds: TypeAlias = Annotated[int | None, Query(ge=1, le=10**9, description="Only lines that are no older")]
Timestamps: TypeAlias = Annotated[bool, Query(description="Each line behind its time; events have it anyway")]
Follow: TypeAlias = Annotated[
    bool, Query(description="As server-sent events, of every container unless one is named, until the Job has ended")
]
LastEventId: TypeAlias = Annotated[str | None, Header(alias="Last-Event-ID", description="Where an earlier stream is gone on from")]

_POD_NAME = re.compile(r"[a-z0-9.-]+")

router = APIRouter(prefix="/api/v1/jobs", tags=["Jobs"], route_class=StrictRoute)


def _responses(model: type) -> dict[int | str, dict[str, Any]]:
    found = {"model": model, "content": EVENTS, "description": "The logs"}
    return {200: found, **answers(400, 401, 403, 404, 409, 422, 429, 502, 503)}


@router.get(
    "/{namespace}/{name}/logs", response_model=JobLogsAnswer, response_model_exclude_unset=True, responses=_responses(JobLogsAnswer)
)
async def get_job_logs(
    namespace: str,
    name: str,
    core: CoreOf,
    caller: Reader,
    container: Container = None,
    tail: Tail = 100,
    previous: Previous = False,
    since_seconds: SinceSeconds = None,
    timestamps: Timestamps = False,
    pod: Annotated[str | None, Query(max_length=253, description="Of this pod alone")] = None,
    follow: Follow = False,
    last_event_id: LastEventId = None,
) -> Any:
    """The log of one container of every pod of a Job. The newest pod must have one: while it is Pending, that is a 409 with the reason."""
    api, job = await _find(core, caller, namespace, name)
    asked = Asked(container=container, tail=tail, previous=previous, since_seconds=since_seconds, timestamps=timestamps)
    if follow:
        return await _followed(core, api, job, asked, pod=pod, last_event_id=last_event_id)
    try:
        pods, more = ([await pod_of_job(api, job, pod)], False) if pod is not None else await newest_pods(api, job)
        logs = await read_pods(api, pods, asked)
    except NoLogError as error:
        raise HTTPException(400, detail=str(error)) from None
    return JobLogsAnswer(**env(core), **_job_fields(job, pods[-1], asked), **_log_fields(logs, more=more))


@router.get(
    "/{namespace}/{name}/pods/{pod_name}/logs",
    response_model=PodLogsAnswer,
    response_model_exclude_unset=True,
    responses=_responses(PodLogsAnswer),
)
async def get_pod_logs(
    namespace: str,
    name: str,
    pod_name: str,
    core: CoreOf,
    caller: Reader,
    container: Container = None,
    tail: Tail = 100,
    previous: Previous = False,
    since_seconds: SinceSeconds = None,
    timestamps: Timestamps = False,
    follow: Follow = False,
    last_event_id: LastEventId = None,
) -> Any:
    """The log of one pod of a Job; followed, it ends with the pod."""
    api, job = await _find(core, caller, namespace, name)
    asked = Asked(container=container, tail=tail, previous=previous, since_seconds=since_seconds, timestamps=timestamps)
    if follow:
        return await _followed(core, api, job, asked, pod=pod_name, last_event_id=last_event_id)
    try:
        pod = await pod_of_job(api, job, pod_name)
        chosen = chosen_container(pod, container)
        require_started(pod, chosen)
        found = await read_pod(api, pod, chosen, asked)
    except NoLogError as error:
        raise HTTPException(400, detail=str(error)) from None
    cut: dict[str, Any] = {"truncated": True} if found.truncated else {}
    return PodLogsAnswer(
        **env(core), job_name=name, namespace=namespace, pod_name=pod_name, container=found.container, logs=found.text, **cut
    )


async def _find(core: Core, caller: Caller, namespace: str, name: str) -> tuple[KubernetesApi, dict[str, Any]]:
    """The cluster's API server and the Job's document. Raises ForbiddenError, NotFoundError, UnavailableError."""
    allowed_namespace(core, caller, namespace)
    api = await core.cluster()
    return api, await read_job(api, namespace, name)


async def _followed(core: Core, api: KubernetesApi, job: Document, asked: Asked, *, pod: str | None, last_event_id: str | None) -> Response:
    """A stream of events. What can't be is told before it begins, as that pods may not be read; a Job may well have none yet."""
    if asked.previous:
        raise InvalidError([Problem(pointer="/previous", value=True, rule="must be false with follow: a run that is over does not go on")])
    position = decode(last_event_id) if last_event_id else None
    template: Document = job["spec"]["template"]
    try:
        if asked.container is not None:
            chosen_container({**template, "metadata": {"name": f"{job['metadata']['name']}-…"}}, asked.container)
        if pod is not None and (position is None or not _POD_NAME.fullmatch(pod)):
            await pod_of_job(api, job, pod)  # one that is gone by now may have been shown in part
        await api.request("GET", POD.path(job["metadata"]["namespace"]), query={"labelSelector": pod_selector(job), "limit": "1"})
    except NoLogError as error:
        raise HTTPException(400, detail=str(error)) from None
    since = timedelta(seconds=asked.since_seconds) if asked.since_seconds is not None else None
    choice = Choice(pod=pod, container=asked.container, tail=asked.tail, since=since)
    follower = LogFollower(await core.cluster_streams(), job, choice, position, ends_with_pod=pod is not None, clock=core.clock)
    return FollowingResponse(_events(follower), core.following, events=True)


async def _events(follower: LogFollower) -> AsyncGenerator[bytes, None]:
    async with aclosing(follower.items()) as items:
        async for item in items:
            yield log_event(item, follower.position_after)


def _job_fields(job: Document, pod: Document, asked: Asked) -> dict[str, Any]:
    """What is told of the Job and of the pod that is meant first of all."""
    return {
        "job_name": job["metadata"]["name"],
        "namespace": job["metadata"]["namespace"],
        "pod_name": pod["metadata"]["name"],
        "container": chosen_container(pod, asked.container),
        "available_containers": containers_of(pod),
        "init_containers": init_containers_of(pod),
        "previous": asked.previous,
        "tail_lines": asked.tail,
    }


def _log_fields(logs: list[PodLog], *, more: bool) -> dict[str, Any]:
    cut: dict[str, Any] = {"truncated": True} if more or any(log.truncated for log in logs) else {}
    if len(logs) == 1:
        return {"logs": logs[0].text, **cut}
    parts = [PodLogPart(pod_name=log.pod, container=log.container, logs=log.text, error=log.error) for log in logs]
    return {"logs": together(logs), "pods": parts, **cut}

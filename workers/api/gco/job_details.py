"""One Job of the cluster as the GCO door shows it: the Job, its events, its pods, and what they use.

The cluster is asked each time, and about the Job that has the name now: pods and events of an earlier one of the same name are not its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter

from shared.clusters.api import KubernetesApi
from shared.clusters.job_documents import read_job
from shared.clusters.job_events import events_of
from shared.clusters.job_pods import pods_of
from shared.clusters.pod_metrics import samples_of
from shared.clusters.scheduling import scheduling_of, scheduling_of_job
from shared.identity.callers import Caller
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader
from workers.api.errors import answers
from workers.api.gco import detail_views
from workers.api.gco.detail_schemas import JobDetailAnswer, JobEventsAnswer, JobMetricsAnswer, JobPodsAnswer
from workers.api.gco.translation import allowed_namespace, env

_ERRORS = answers(401, 403, 404, 422, 429, 502, 503)

router = APIRouter(prefix="/api/v1/jobs", tags=["Jobs"], route_class=StrictRoute)


@router.get("/{namespace}/{name}", responses=_ERRORS)
async def get_job(namespace: str, name: str, core: CoreOf, caller: Reader) -> JobDetailAnswer:
    """A Job and where its pods are. Failing to read pods or nodes is told in `scheduling`, and is no error."""
    api, job = await _find(core, caller, namespace, name)
    return JobDetailAnswer(**env(core), **detail_views.job_fields(job, await scheduling_of_job(api, job)))


@router.get("/{namespace}/{name}/events", responses=_ERRORS)
async def get_job_events(namespace: str, name: str, core: CoreOf, caller: Reader) -> JobEventsAnswer:
    """Events of a Job and of its pods, gone ones included, the newest first; at most 1000. A cluster keeps them for an hour."""
    api, job = await _find(core, caller, namespace, name)
    return JobEventsAnswer(**env(core), **_about(job), **detail_views.event_fields(await events_of(api, job)))


@router.get("/{namespace}/{name}/pods", response_model_exclude_unset=True, responses=_ERRORS)
async def get_job_pods(namespace: str, name: str, core: CoreOf, caller: Reader) -> JobPodsAnswer:
    """The pods of a Job, the oldest first, with their containers and nodes."""
    api, job = await _find(core, caller, namespace, name)
    pods = await pods_of(api, job)
    return JobPodsAnswer(**env(core), **_about(job), **detail_views.pod_fields(pods, await scheduling_of(api, pods)))


@router.get("/{namespace}/{name}/metrics", responses=_ERRORS)
async def get_job_metrics(namespace: str, name: str, core: CoreOf, caller: Reader) -> JobMetricsAnswer:
    """What the pods of a Job use. `available` is false, and `message` says why, where there is no metrics server. Without pods: 404."""
    api, job = await _find(core, caller, namespace, name)
    pods, samples = await asyncio.gather(pods_of(api, job), samples_of(api, job))
    return JobMetricsAnswer(**env(core), **_about(job), **detail_views.metric_fields(name, pods, samples))


async def _find(core: Core, caller: Caller, namespace: str, name: str) -> tuple[KubernetesApi, dict[str, Any]]:
    """The cluster's API server and the Job's document. Raises ForbiddenError, NotFoundError, UnavailableError."""
    allowed_namespace(core, caller, namespace)
    api = await core.cluster()
    return api, await read_job(api, namespace, name)


def _about(job: dict[str, Any]) -> dict[str, Any]:
    return {"job_name": job["metadata"]["name"], "namespace": job["metadata"]["namespace"]}

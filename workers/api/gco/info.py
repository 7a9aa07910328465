"""What the service is and whether it is well: the GCO door's index, probes, health and status."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, HTTPException, Response

from shared.errors import FleetError
from shared.store.totals import TEMPLATES, WEBHOOKS
from workers.about import SERVICE, cluster_id, release
from workers.api.core import Core
from workers.api.dependencies import READS, CoreOf, Reader
from workers.api.errors import answers
from workers.api.gco.endpoints import ENDPOINTS
from workers.api.gco.info_schemas import (
    Environment,
    HealthAnswer,
    ProbeAnswer,
    QueueWorker,
    ResourceLimits,
    RootAnswer,
    ServiceStatus,
)
from workers.api.vitals import PROBE_SECONDS, look, unready

_UNHEALTHY: dict[int | str, dict[str, Any]] = {503: {"model": HealthAnswer, "description": "The table does not answer"}}

router = APIRouter()


@router.get("/", tags=["Info"], dependencies=[READS], responses=answers(401, 403, 429, 503))
async def root(core: CoreOf) -> RootAnswer:
    """What this service is, and its endpoints."""
    return RootAnswer(
        service=SERVICE,
        version=release(),
        status="running",
        cluster_id=cluster_id(core.region),
        region=core.region,
        endpoints=ENDPOINTS,
    )


@router.get("/healthz", tags=["Health"], responses=answers(429))
async def kubernetes_health_check() -> ProbeAnswer:
    """Whether the process lives."""
    return ProbeAnswer(status="ok")


@router.get("/readyz", tags=["Health"], responses=answers(429, 503))
async def kubernetes_readiness_check(core: CoreOf) -> ProbeAnswer:
    """Whether the service can serve: the table answers, and every worker's loop of this process runs."""
    if (reason := await unready(core)) is not None:
        raise HTTPException(503, detail=reason, headers={"Retry-After": "5"})
    return ProbeAnswer(status="ready")


@router.get("/api/v1/health", tags=["Health"], responses={**answers(429), **_UNHEALTHY})
async def health_check(core: CoreOf, response: Response) -> HealthAnswer:
    """Healthy while jobs can be taken: that needs the table, not the cluster."""
    well, connected = await look(core)
    response.status_code = 200 if well else 503
    return HealthAnswer(
        status="healthy" if well else "unhealthy",
        timestamp=core.clock.now(),
        cluster_id=cluster_id(core.region),
        region=core.region,
        kubernetes_api="connected" if connected else "disconnected",
    )


@router.get("/api/v1/status", tags=["Health"], responses=answers(401, 403, 429, 503))
async def get_service_status(core: CoreOf, caller: Reader) -> ServiceStatus:
    """The service, the limits that it enforces, and the caller's namespaces. It is told whatever happens.

    Counts that can't be read now are 0, and it says so; they are too for a caller who is bound to namespaces, since they are of all.
    """
    policy = core.policy
    namespaces = caller.within(policy.allowed_namespaces)
    counts = await _counts(core) if caller.namespaces is None else None
    return ServiceStatus(
        service=SERVICE,
        version=release(),
        timestamp=core.clock.now(),
        manifest_processor_initialized=True,
        environment=Environment(
            cluster_name=cluster_id(core.region),
            region=core.region,
            max_cpu_per_manifest=str(policy.max_cpu),
            max_memory_per_manifest=str(policy.max_memory),
            max_gpu_per_manifest=str(policy.max_gpus),
            allowed_namespaces=",".join(namespaces),
            validation_enabled="true",
        ),
        templates_count=counts[TEMPLATES] if counts else 0,
        webhooks_count=counts[WEBHOOKS] if counts else 0,
        counts_known=counts is not None,
        central_queue_worker=_queue_worker(core),
        cluster_id=cluster_id(core.region),
        region=core.region,
        resource_limits=ResourceLimits(
            max_cpu_millicores=int(policy.max_cpu * 1000),
            max_memory_bytes=int(policy.max_memory),
            max_gpu_count=policy.max_gpus,
        ),
        allowed_namespaces=list(namespaces),
        validation_enabled=True,
    )


def _queue_worker(core: Core) -> QueueWorker:
    """The dispatcher inside this process, where one runs here."""
    loop = core.loops.get("dispatcher")
    passes = loop.passes if loop is not None else None
    return QueueWorker(
        enabled=loop is not None,
        running=loop is not None and not loop.task.done(),
        stopping=loop is not None and core.loops.stopping,
        owner=loop.owner if loop is not None else None,
        last_pass_started_at=passes.started_at if passes is not None else None,
        last_successful_pass_at=passes.succeeded_at if passes is not None else None,
        last_error=passes.error if passes is not None else None,
    )


async def _counts(core: Core) -> dict[str, int] | None:
    """How many templates and webhooks there are; None where the table doesn't answer. One read."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await core.totals.of([TEMPLATES, WEBHOOKS])
    except (FleetError, TimeoutError):
        return None

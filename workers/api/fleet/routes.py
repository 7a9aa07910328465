"""The fleet's own door, put together."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from shared.queues.submissions import json_schema
from workers.api.bodies import StrictRoute
from workers.api.dependencies import READS
from workers.api.errors import answers
from workers.api.fleet.costs import router as costs
from workers.api.fleet.dead_letters import router as dead_letters
from workers.api.fleet.health import router as health
from workers.api.fleet.jobs import router as jobs
from workers.api.fleet.keys import router as keys
from workers.api.fleet.metric_queries import router as metric_queries
from workers.api.fleet.metrics import router as metrics
from workers.api.fleet.regions import router as regions
from workers.api.fleet.webhooks import router as webhooks

router = APIRouter(prefix="/fleet/v1", route_class=StrictRoute)
router.include_router(jobs)
router.include_router(dead_letters)
router.include_router(keys)
router.include_router(health)
router.include_router(regions)
router.include_router(webhooks)
router.include_router(metrics)
router.include_router(metric_queries)
router.include_router(costs)


@router.get("/schemas/submission", tags=["Fleet: schemas"], dependencies=[READS], responses=answers(401, 403, 422, 429, 503))
async def get_submission_schema() -> dict[str, Any]:
    """The JSON Schema of a message on the submissions queue."""
    return json_schema()

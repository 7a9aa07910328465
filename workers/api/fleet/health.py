"""The fleet's own health."""

from __future__ import annotations

from fastapi import APIRouter

from shared.health.model import FleetHealth
from workers.api.bodies import StrictRoute
from workers.api.dependencies import CoreOf, Reader
from workers.api.errors import answers

FRESH_SECONDS = 5.0

router = APIRouter(tags=["Fleet: health"], route_class=StrictRoute)


@router.get("/health", responses=answers(401, 403, 422, 429, 503))
async def get_fleet_health(core: CoreOf, caller: Reader) -> FleetHealth:
    """Backlogs and their ages by region, dead letters, deliveries, and how workers' loops are; at most five seconds old."""
    caller.require_all_namespaces("the fleet's health")
    return await core.health.get(busy_seconds=FRESH_SECONDS, idle_seconds=FRESH_SECONDS, all_of_it=True)

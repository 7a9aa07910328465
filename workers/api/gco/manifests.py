"""The manifests group of the GCO door."""

from __future__ import annotations

from fastapi import APIRouter

from workers.api.bodies import StrictRoute

router = APIRouter(prefix="/api/v1/manifests", route_class=StrictRoute)

"""`/metrics` in Prometheus' text form: the fleet's health, and the requests of this process. Open, as the original's is.

It names regions, queues, workers and routes, and no job, namespace or caller; and it is read at most once a minute, whoever asks how often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from shared.errors import UnavailableError
from workers.api.core import Core
from workers.api.dependencies import CoreOf

if TYPE_CHECKING:
    from shared.health.figures import Figure

router = APIRouter()


@router.get("/metrics", include_in_schema=False)  # as the original's, which isn't in its description either
async def prometheus_metrics(core: CoreOf, request: Request) -> Response:
    """Gauges of the fleet and counters of this process. Where the table doesn't answer, `fleet_health_unread` says so."""
    from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry
    from prometheus_client.exposition import generate_latest

    from shared.health.collector import HealthCollector

    collector = HealthCollector()
    collector.put(await _figures(core))
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry)
    figures = request.app.state.figures
    if figures is not None:
        text += generate_latest(figures.registry)
    return Response(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)


async def _figures(core: Core) -> list[Figure]:
    from shared.health.figures import UNREAD, figures_of

    try:
        return figures_of(await core.health.get())
    except UnavailableError:
        return UNREAD

"""The metrics worker as one loop: the scrapes of some regions, the fleet's own health, and the server of `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import structlog
from prometheus_client.registry import CollectorRegistry

from shared.aws import Aws
from shared.settings import Settings
from workers.loops import AllPasses
from workers.metrics import build, health
from workers.metrics.health import HealthLoop
from workers.metrics.loop import MetricsLoop
from workers.metrics.server import serving

log = structlog.get_logger()

SERVICES: Final = tuple({*build.SERVICES, *health.SERVICES})


class MetricsWorker:
    """Measures, and tells of what it measured, until it is stopped."""

    def __init__(self, scrapes: MetricsLoop, telling: HealthLoop) -> None:
        self._scrapes = scrapes
        self._telling = telling
        self.passes = AllPasses([*scrapes.parts, telling.passes])

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._scrapes.run(stop))
            group.create_task(self._telling.run(stop))


@asynccontextmanager
async def metrics_worker(settings: Settings, aws: Aws, regions: Sequence[str]) -> AsyncIterator[MetricsWorker]:
    """The worker over clients of `SERVICES`. `/metrics` is served, and connections to clusters stand, as long as the context does.

    Raises what `build` raises, and OSError where the port of `/metrics` is taken.
    """
    async with AsyncExitStack() as stack:
        scrapes, collector = build.build(settings, aws, stack)
        telling = health.build(settings, aws, regions)
        registry = CollectorRegistry()
        registry.register(collector)
        registry.register(telling.collector)
        port = stack.enter_context(serving(registry, host=settings.metrics_host, port=settings.metrics_port))
        log.info("serving", url=f"http://{settings.metrics_host}:{port}/metrics")
        loop = MetricsLoop(
            scrape=scrapes.scrape, regions=regions, seconds=settings.metrics_seconds, grace_seconds=settings.shutdown_seconds
        )
        yield MetricsWorker(loop, telling)

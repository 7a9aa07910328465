"""`python -m workers.metrics [--region R]…`: reads the GPUs of regions, all unless said, and serves `/metrics`. One worker a region."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

import structlog
from prometheus_client.registry import CollectorRegistry

from shared.aws import connect
from shared.clock import SystemClock
from shared.errors import FleetError
from shared.settings import Settings
from shared.store.beats import Beats
from shared.store.table import Table
from workers.beating import beating
from workers.loops import AllPasses
from workers.metrics import health
from workers.metrics.build import SERVICES, build
from workers.metrics.loop import MetricsLoop
from workers.metrics.server import serving
from workers.process import serve

log = structlog.get_logger()


async def main(regions: Sequence[str], stop: asyncio.Event) -> None:
    """Measure until asked to stop."""
    settings = Settings()
    async with AsyncExitStack() as stack:
        aws = await stack.enter_async_context(connect(settings.control_region, *{*SERVICES, *health.SERVICES}))
        scrapes, collector = build(settings, aws, stack)
        telling = health.build(settings, aws, regions or settings.regions)
        registry = CollectorRegistry()
        registry.register(collector)
        registry.register(telling.collector)
        port = stack.enter_context(serving(registry, host=settings.metrics_host, port=settings.metrics_port))
        log.info("serving", url=f"http://{settings.metrics_host}:{port}/metrics")
        loop = MetricsLoop(
            scrape=scrapes.scrape,
            regions=regions or settings.regions,
            seconds=settings.metrics_seconds,
            grace_seconds=settings.shutdown_seconds,
        )
        beats = Beats(Table(aws.dynamodb, settings.table))
        passes = AllPasses([*loop.parts, telling.passes])
        async with beating(beats, passes, worker="metrics", clock=SystemClock()), asyncio.TaskGroup() as group:
            group.create_task(loop.run(stop))
            group.create_task(telling.run(stop))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", action="append", default=[])
    arguments = parser.parse_args()
    try:
        serve(lambda stop: main(arguments.region, stop), worker="metrics")
    except FleetError as error:
        sys.exit(str(error))

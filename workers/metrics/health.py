"""Tells of the fleet's own health, beside the scrapes: `/metrics` of this worker, and CloudWatch. On Lambda by lines for CloudWatch.

Whoever tells of it runs beside who reads the GPUs (this worker, or the function `metrics`), and so misses a region that never was read.
A fleet in which nothing is to do is read every five minutes, any other each minute (`shared.health.reading`).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import structlog

from shared.aws import Aws, connect
from shared.clock import SystemClock
from shared.errors import FleetError
from shared.health import telling
from shared.health.collector import HealthCollector
from shared.health.figures import UNREAD, figures_of
from shared.health.model import FleetHealth
from shared.health.reading import BUSY_SECONDS, IDLE_SECONDS, HealthReader, KeptHealth
from shared.health.sources import health_reader
from shared.metrics.cloudwatch_writing import MetricWriter
from shared.metrics.series import FLEET_NAMESPACE
from shared.settings import Settings
from workers.lambdas import Container
from workers.loops import Passes

log = structlog.get_logger()

SERVICES: Final = ("dynamodb", "sqs", "s3")


class HealthLoop:
    """Reads the fleet's health again and again until it is stopped."""

    def __init__(
        self,
        *,
        reader: HealthReader,
        collector: HealthCollector,
        writer: MetricWriter | None,
        busy_seconds: float = BUSY_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._reader = reader
        self.collector = collector
        self._writer = writer
        self._busy_seconds = busy_seconds
        self._idle_seconds = idle_seconds
        self.passes = Passes()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        while not stop.is_set():
            pause = await self._tell()
            try:
                async with asyncio.timeout(pause):
                    await stop.wait()
            except TimeoutError:
                continue

    async def _tell(self) -> float:
        """One snapshot; when the next one is due. What could not be read is told as that."""
        self.passes.begin()
        try:
            health = await self._reader.read()
        except FleetError as error:
            log.warning("the fleet's health is unread", error=str(error))
            self.passes.fail(error)
            self.collector.put(UNREAD)
            return self._busy_seconds
        figures = figures_of(health)
        self.collector.put(figures)
        if self._writer is not None:
            await self._writer.write(telling.data(figures, health.at))
        self.passes.succeed()
        return self._idle_seconds if health.idle else self._busy_seconds


def build(settings: Settings, aws: Aws, regions: Sequence[str]) -> HealthLoop:
    """The loop for some regions, over clients of `SERVICES` and, unless nothing is to be written to CloudWatch, of `cloudwatch`."""
    reader = health_reader(settings.model_copy(update={"regions": tuple(regions)}), aws, SystemClock(), scraped=True)
    writer = MetricWriter(aws.cloudwatch, namespace=FLEET_NAMESPACE) if settings.metrics_rollups else None
    return HealthLoop(reader=reader, collector=HealthCollector(), writer=writer)


async def _start(settings: Settings, stack: AsyncExitStack) -> _Teller:
    aws = await stack.enter_async_context(connect(settings.control_region, *SERVICES))
    clock = SystemClock()
    return _Teller(KeptHealth(health_reader(settings, aws, clock, scraped=True), clock))


class _Teller:
    """Writes each snapshot once, as lines of CloudWatch's embedded metric format."""

    def __init__(self, health: KeptHealth) -> None:
        self._health = health
        self._told: FleetHealth | None = None

    async def tell(self) -> dict[str, Any]:
        """Tell of the newest snapshot, if that has not been done. Raises UnavailableError."""
        health = await self._health.get()
        if health is self._told:
            return {"told": 0}
        documents = telling.embedded(figures_of(health), health.at)
        # To standard output, and not to the log, which may be told to leave out what is no warning.
        sys.stdout.write("".join(f"{json.dumps(document)}\n" for document in documents))
        sys.stdout.flush()
        self._told = health
        return {"told": len(documents)}


_container = Container(_start, worker="metrics")


def handler(_event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """Called by a schedule, each minute. CloudWatch makes metrics of the lines that it leaves."""
    return _container.run(lambda teller: teller.tell())

"""The loop of the metrics worker: every region again and again, each by itself, so that a cluster that is away holds up no other."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import structlog

from shared.errors import FleetError
from workers.loops import Passes

log = structlog.get_logger()

Scrape = Callable[[str], Awaitable[object]]


class MetricsLoop:
    """Calls `scrape` for each region every so many seconds, from begin to begin."""

    def __init__(self, *, scrape: Scrape, regions: Sequence[str], seconds: float, grace_seconds: float) -> None:
        self._scrape = scrape
        self._regions = regions
        self._seconds = seconds
        self._grace_seconds = grace_seconds
        self._passes = {region: Passes() for region in regions}

    @property
    def parts(self) -> list[Passes]:
        """What is noted of the passes, of each region."""
        return list(self._passes.values())

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish the scrapes that have begun, for a while."""
        tasks = [asyncio.create_task(self._forever(region, stop)) for region in self._regions]
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopping}:
                task.result()
            await asyncio.wait(tasks, timeout=self._grace_seconds)
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _forever(self, region: str, stop: asyncio.Event) -> None:
        loop, passes = asyncio.get_running_loop(), self._passes[region]
        while not stop.is_set():
            began = loop.time()
            passes.begin()
            try:
                await self._scrape(region)
                passes.succeed()
            except FleetError as error:
                log.warning("scrape failed", region=region, error=str(error))
                passes.fail(error)
            except Exception as error:
                log.exception("scrape failed", region=region)
                passes.fail(error)
            # A little chance, so that the workers of many fleets don't ask at the same moment for ever.
            pause = max(began + self._seconds * random.uniform(0.97, 1.0) - loop.time(), 0.0)
            try:
                async with asyncio.timeout(pause):
                    await stop.wait()
            except TimeoutError:
                continue

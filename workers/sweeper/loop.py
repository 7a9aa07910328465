"""The sweeper's loop: each region as often as its next due mark asks for, and now and then when nothing is due."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from shared.clock import Clock
from shared.errors import FleetError
from shared.jobs.sweeping import Sweeper
from workers.loops import AllPasses, Passes

log = structlog.get_logger()

MIN_PAUSE_SECONDS = 1.0


class SweeperLoop:
    """Sweeps regions side by side, so that a slow one doesn't hold up the others.

    `idle_seconds` bounds how late a mark is found that was set after the last sweep; with one due shard and 60 s an idle region costs 1,440
    requests a day.
    """

    def __init__(self, *, sweeper: Sweeper, regions: Sequence[str], clock: Clock, idle_seconds: float) -> None:
        self._sweeper = sweeper
        self._regions = regions
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._passes = {region: Passes(clock) for region in regions}
        self.passes = AllPasses(list(self._passes.values()))

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        async with asyncio.TaskGroup() as group:
            for region in self._regions:
                group.create_task(self._sweep_forever(region, stop))

    async def _sweep_forever(self, region: str, stop: asyncio.Event) -> None:
        passes = self._passes[region]
        while not stop.is_set():
            pause = self._idle_seconds
            passes.begin()
            try:
                following = await self._sweeper.sweep(region)
                if following is not None:
                    early = (following - self._clock.now()).total_seconds()
                    pause = min(pause, max(early, MIN_PAUSE_SECONDS))
                passes.succeed()
            except FleetError as error:
                passes.fail(error)
                log.warning("sweep failed", region=region, error=str(error))
            try:
                async with asyncio.timeout(pause):
                    await stop.wait()
            except TimeoutError:
                continue

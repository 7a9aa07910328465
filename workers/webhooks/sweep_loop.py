"""Takes on due deliveries as often as the next mark asks for."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import FleetError
from shared.webhooks.sweeping import DeliverySweeper
from workers.loops import Passes

log = structlog.get_logger()

IDLE_SECONDS: Final = 5.0
"""How late a mark may be found that somebody else has set, such as a delivery that is to be sent again: 17,280 queries a day and shard."""
MIN_SECONDS: Final = 0.5


class DeliverySweepLoop:
    """Sweeps until it is stopped."""

    def __init__(self, *, sweeper: DeliverySweeper, clock: Clock) -> None:
        self._sweeper = sweeper
        self._clock = clock
        self.passes = Passes(clock)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        while not stop.is_set():
            pause = IDLE_SECONDS
            self.passes.begin()
            try:
                following = await self._sweeper.sweep()
                if following is not None:
                    pause = min(pause, max((following - self._clock.now()).total_seconds(), MIN_SECONDS))
                self.passes.succeed()
            except FleetError as error:
                self.passes.fail(error)
                log.warning("due deliveries not looked at", error=str(error))
            try:
                async with asyncio.timeout(pause):
                    await stop.wait()
            except TimeoutError:
                continue

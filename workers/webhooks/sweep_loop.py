"""Takes on due deliveries as often as the next mark asks for."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import FleetError
from shared.webhooks.due import DueMarks
from shared.webhooks.sweeping import LOOK, DeliverySweeper
from workers.loops import Passes
from workers.process import first_of

log = structlog.get_logger()

MIN_SECONDS: Final = 0.5
"""Between two looks at the index, and between a write and the look that is to find it: an index is a little behind."""
RETRY_SECONDS: Final = 5.0
"""After how long it is looked again where the index could not be read."""


class DeliverySweepLoop:
    """Sweeps until it is stopped: at the earliest mark that was seen in the index or written by this process.

    `idle_seconds` bounds how late a mark is found that another process has set, such as a delivery that is to be sent again. With one due
    shard and 60 s an idle day costs 1,440 requests. While anything waits it sweeps every 30 s at least, which finds what waits
    for webhooks that were deleted.
    """

    def __init__(self, *, sweeper: DeliverySweeper, marks: DueMarks, clock: Clock, idle_seconds: float) -> None:
        self._sweeper = sweeper
        self._marks = marks
        self._clock = clock
        self._idle = timedelta(seconds=idle_seconds)
        self.passes = Passes(clock)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        while not stop.is_set():
            looked_at = self._clock.now()
            self._marks.look()
            self.passes.begin()
            try:
                following = await self._sweeper.sweep()
                self.passes.succeed()
            except FleetError as error:
                following = looked_at + timedelta(seconds=RETRY_SECONDS)
                self.passes.fail(error)
                log.warning("due deliveries not looked at", error=str(error))
            await self._rest(looked_at, following, stop)

    async def _rest(self, looked_at: datetime, following: datetime | None, stop: asyncio.Event) -> None:
        """Until something is due; a mark that is written meanwhile may be earlier."""
        until = self._clock.now() + (min(self._idle, LOOK) if following is not None else self._idle)
        while not stop.is_set():
            self._marks.earlier.clear()
            now = self._clock.now()
            for at in (following, self._marks.following(looked_at)):
                if at is not None:
                    until = min(until, max(at, now + timedelta(seconds=MIN_SECONDS)))
            if now >= until or not await first_of(stop, self._marks.earlier, seconds=(until - now).total_seconds()):
                return

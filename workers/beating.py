"""Has a process tell of its loop while it runs (`shared.health.beats`).

A process that was killed can't tell that it ended: its last beat would stand beside its successor's for an hour. So whoever begins tells
it of every process of its worker and region that had its own host's name and is not there any more. Of another host's nobody here knows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import structlog

from shared.clock import Clock
from shared.errors import FleetError
from shared.health.beats import EVERY, Beat, Progress, state_of
from shared.health.model import LoopState
from workers.about import UNKNOWN, release
from workers.process import owner

log = structlog.get_logger()

LOOK_SECONDS: Final = 15.0
END_SECONDS: Final = 5.0
"""How long a process that ends tries to say so: where the table doesn't answer, it would try for longer than it is given to end."""
_LONGEST_ERROR: Final = 500


class Beats(Protocol):
    """Keeps beats (`shared.store.beats`)."""

    async def put(self, beat: Beat) -> None:
        """Replace what was told of this loop. Raises UnavailableError."""
        ...

    async def latest(self) -> Sequence[Beat]:
        """What was last told of each loop that has not ended. Raises UnavailableError."""
        ...


@asynccontextmanager
async def beating(
    beats: Beats,
    passes: Progress,
    *,
    worker: str,
    clock: Clock,
    region: str | None = None,
    look_seconds: float = LOOK_SECONDS,
    end_seconds: float = END_SECONDS,
) -> AsyncIterator[None]:
    """Tell that a loop begins, how it is, and that it ends, as long as the block lasts. What can't be told is told later."""
    teller = _Teller(beats, passes, worker=worker, region=region, clock=clock)
    task = asyncio.create_task(teller.forever(look_seconds))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        try:
            async with asyncio.timeout(end_seconds):
                await teller.tell(ended=True)
        except TimeoutError:
            log.warning("end not told", seconds=end_seconds)


class _Teller:
    def __init__(self, beats: Beats, passes: Progress, *, worker: str, region: str | None, clock: Clock) -> None:
        self._beats = beats
        self._passes = passes
        self._worker = worker
        self._region = region
        self._owner = owner(region or "all")
        self._clock = clock
        self._told: Beat | None = None

    async def forever(self, look_seconds: float) -> None:
        """Tell when there is something to tell."""
        while True:
            if self._is_news():
                await self.tell()
            await asyncio.sleep(look_seconds)

    def _is_news(self) -> bool:
        now = self._clock.now()
        told = self._told
        if told is None or told.state is not state_of(self._passes, now) or now - told.at >= EVERY:
            return True
        return told.passed_at is None and self._passes.succeeded_at is not None

    async def tell(self, *, ended: bool = False) -> None:
        """Tell how the loop is."""
        now, passes = self._clock.now(), self._passes
        beat = Beat(
            worker=self._worker,
            region=self._region,
            owner=self._owner,
            at=now,
            state=LoopState.WELL if ended else state_of(passes, now),
            passed_at=passes.succeeded_at,
            error=passes.error[:_LONGEST_ERROR] if passes.error is not None else None,
            ended=ended,
            release=None if release() == UNKNOWN else release(),
        )
        try:
            if self._told is None:
                await self._end_the_dead()
            await self._beats.put(beat)
        except FleetError as error:
            log.warning("beat not told", error=str(error))
            return
        self._told = beat

    async def _end_the_dead(self) -> None:
        for beat in await self._beats.latest():
            if (beat.worker, beat.region) == (self._worker, self._region) and is_gone(beat.owner, beside=self._owner):
                await self._beats.put(beat.model_copy(update={"ended": True}))


def is_gone(name: str, *, beside: str) -> bool:
    """Whether the process of a name that `owner` made is known to run no more, by the process that is called `beside`."""
    place, _, process = name.rpartition("/")
    if place != beside.rpartition("/")[0] or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)  # signal 0 only asks
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # somebody else's, or no number of a process here
        return False
    return False

"""The sweeper on AWS Lambda, called by a schedule of a minute.

An invocation sweeps every region, and again whatever falls due while it may go on, as the loop does; where nothing waits it ends at once.
So marks are seen to as early as by the loop: one that is set after a sweep is found within a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from shared.aws import connect
from shared.clock import Clock
from shared.errors import FleetError
from shared.jobs.sweeping import Sweeper
from shared.settings import Settings
from workers.assembly import assemble
from workers.lambdas import Container, seconds_left
from workers.sweeper.build import SERVICES, sweeper
from workers.sweeper.loop import MIN_PAUSE_SECONDS

log = structlog.get_logger()

MARGIN_SECONDS: Final = 10.0
"""What is left of an invocation when no further sweep is begun: one of many marks takes some seconds, and the schedule calls again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What an invocation works with. One sweeper for the life of the container, since it knows how long it was away."""

    sweeper: Sweeper
    regions: Sequence[str]
    clock: Clock


@dataclass(kw_only=True, slots=True)
class Swept:
    """What became of a region: how often it was swept, when something is due next, what went wrong at last."""

    sweeps: int = 0
    following: datetime | None = None
    error: FleetError | None = None

    def document(self) -> dict[str, Any]:
        """As the answer tells it."""
        return {
            "sweeps": self.sweeps,
            "next": self.following.isoformat() if self.following is not None else None,
            "error": str(self.error) if self.error is not None else None,
        }


async def _start(settings: Settings, stack: AsyncExitStack) -> Parts:
    aws = await stack.enter_async_context(connect(settings.control_region, *SERVICES))
    core = await assemble(settings, aws)
    return Parts(sweeper=sweeper(core, aws), regions=settings.regions, clock=core.clock)


_container = Container(_start, worker="sweeper")


def handler(_event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Sweep all regions; says of each how often, when something is due next, and what went wrong."""
    return _container.run(lambda parts: answer(parts, seconds=seconds_left(context, margin=MARGIN_SECONDS)))


async def answer(parts: Parts, *, seconds: float) -> dict[str, Any]:
    """Sweep for so long. Raises UnavailableError where no region could be swept, so that Lambda counts the call as failed."""
    end = parts.clock.now() + timedelta(seconds=seconds)
    found = await asyncio.gather(*(_sweep(parts, region, end) for region in parts.regions))
    errors = [swept.error for swept in found if swept.error is not None]
    if len(errors) == len(parts.regions):
        raise errors[0]
    return {region: swept.document() for region, swept in zip(parts.regions, found, strict=True)}


async def _sweep(parts: Parts, region: str, end: datetime) -> Swept:
    """Sweep a region until nothing of it falls due before the end."""
    swept = Swept()
    while True:
        try:
            swept.following = await parts.sweeper.sweep(region)
        except FleetError as error:
            log.warning("sweep failed", region=region, error=str(error))
            swept.error = error
            return swept
        swept.sweeps += 1
        now = parts.clock.now()
        if swept.following is None:
            return swept
        again = max(swept.following, now + timedelta(seconds=MIN_PAUSE_SECONDS))
        if again >= end:
            return swept
        await asyncio.sleep((again - now).total_seconds())

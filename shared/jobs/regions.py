"""Whether a region takes jobs: an operator drains it, so that nothing more is claimed there, and later resumes it.

What runs goes on to its end. What is queued waits, and a job that was submitted to any region is moved to another one, unless the operator
wants it to stay. Nobody is told: whoever is about to claim, place or move a job reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from pydantic import AwareDatetime

from shared.clock import Clock
from shared.errors import ConflictError, FleetError, NotFoundError
from shared.jobs.model import Record
from shared.jobs.ports import Doorbell

OPEN_SECONDS: Final = 5.0
"""How long a worker believes that a region is open. A drained one is asked for at each look, so that a resumption holds at once."""
INTERRUPT_AFTER: Final = timedelta(seconds=2 * OPEN_SECONDS)
"""How long after its drain what runs in a region is interrupted: a dispatcher that still believes it to be open would start it again."""
RING_AGAIN: Final = timedelta(seconds=10)
"""When the sweeper rings at a region that was resumed: that bell may have been lost, or have met somebody who had just looked."""
_MEETINGS: Final = 5


class RegionStatus(Record):
    """What operators decided about a region, and since when; of one that was never drained, nothing but its name.

    `revision` grows with every decision. `move` and `interrupt` say what becomes of the jobs of a drained one: of those that are queued and
    may run anywhere, and of those that run. `due` is when the sweeper must look at it.
    """

    region: str
    revision: int = 0
    drained: bool = False
    since: AwareDatetime | None = None
    by: str | None = None
    reason: str | None = None
    move: bool = False
    interrupt: bool = False
    due: AwareDatetime | None = None

    @property
    def told(self) -> str:
        """Why a queued job of the region waits, for its record."""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.region} is drained since {self.since:%Y-%m-%d %H:%M} UTC{why}; the job waits until it is resumed"


def drained(status: RegionStatus, now: datetime, *, by: str, reason: str | None, move: bool, interrupt: bool) -> RegionStatus | None:
    """The status after a drain; None where it says so already. A second drain may say something else, and leaves the time of the first."""
    if status.drained and (status.move, status.interrupt) == (move, interrupt) and reason in (None, status.reason):
        return None
    return status.model_copy(
        update={
            "revision": status.revision + 1,
            "drained": True,
            "since": status.since if status.drained else now,
            "by": by,
            "reason": reason if reason is not None or not status.drained else status.reason,
            "move": move,
            "interrupt": interrupt,
            "due": now + INTERRUPT_AFTER if interrupt else now if move else None,
        }
    )


def resumed(status: RegionStatus, now: datetime, *, by: str, reason: str | None) -> RegionStatus | None:
    """The status after a resumption; None where the region is open."""
    if not status.drained:
        return None
    return RegionStatus(region=status.region, revision=status.revision + 1, since=now, by=by, reason=reason, due=now + RING_AGAIN)


class StatusChangedError(FleetError):
    """A region's status was written by somebody else; `current` is what stands now."""

    def __init__(self, current: RegionStatus) -> None:
        self.current = current
        super().__init__(f"{current.region} was changed meanwhile")


class Statuses(Protocol):
    """The statuses of regions in the table. Every method may raise UnavailableError."""

    async def status(self, region: str) -> RegionStatus:
        """What stands (consistent read)."""
        ...

    async def statuses(self, regions: Sequence[str]) -> Mapping[str, RegionStatus]:
        """Those of several regions by region, every one named (consistent read, one request for a hundred)."""
        ...

    async def write(self, before: RegionStatus, after: RegionStatus) -> RegionStatus:
        """Replace a status that has the revision of `before`. Raises StatusChangedError."""
        ...


class ClaimGate:
    """Asked at each look whether a region's jobs may be claimed. What it says holds for some seconds only: no claim is bound to it."""

    def __init__(self, statuses: Statuses, region: str, *, open_seconds: float = OPEN_SECONDS) -> None:
        self._statuses = statuses
        self._region = region
        self._open_seconds = open_seconds
        self._open_until = float("-inf")

    async def is_open(self) -> bool:
        """Raises UnavailableError: where nobody can say, nothing is claimed."""
        began = asyncio.get_running_loop().time()
        if began < self._open_until:
            return True
        if (await self._statuses.status(self._region)).drained:
            return False
        self._open_until = began + self._open_seconds
        return True


class RegionControl:
    """Drains regions and resumes them: one conditional write each. Whoever comes second is told what stands."""

    def __init__(self, *, statuses: Statuses, regions: Sequence[str], doorbell: Doorbell, clock: Clock) -> None:
        self._statuses = statuses
        self._regions = regions
        self._doorbell = doorbell
        self._clock = clock

    async def drain(self, region: str, *, by: str, reason: str | None, move: bool, interrupt: bool) -> RegionStatus:
        """Claim nothing more in a region. Raises NotFoundError, ConflictError where others change it again and again, UnavailableError."""
        return await self._change(region, lambda status, now: drained(status, now, by=by, reason=reason, move=move, interrupt=interrupt))

    async def resume(self, region: str, *, by: str, reason: str | None) -> RegionStatus:
        """Claim in a region again, at once. Raises as `drain` does."""
        status = await self._change(region, lambda status, now: resumed(status, now, by=by, reason=reason))
        await self._doorbell.ring(region, f"region {region}")
        return status

    async def _change(self, region: str, build: _Build) -> RegionStatus:
        if region not in self._regions:
            raise NotFoundError("Region", region, hint=f"the regions of this fleet are {', '.join(self._regions)}")
        status = await self._statuses.status(region)
        for _ in range(_MEETINGS):
            after = build(status, self._clock.now())
            if after is None:
                return status
            try:
                return await self._statuses.write(status, after)
            except StatusChangedError as changed:
                status = changed.current
        raise ConflictError(f"{region} is drained and resumed by others at the same time")


class _Build(Protocol):
    def __call__(self, status: RegionStatus, now: datetime, /) -> RegionStatus | None: ...

"""Where a job goes that may run anywhere: to a region with free GPUs for it, and of those to the one with the shortest ready list.

What is known of regions is a few seconds old and shared by nobody: two processes may choose the same region at the same time. That costs
balance, never correctness, since a job waits wherever it was placed until its cluster has room.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from pydantic import AwareDatetime

from shared.clock import Clock
from shared.jobs.model import Record
from shared.jobs.states import State

FRESH = timedelta(seconds=5)
"""How long a process believes what it read of the regions. Its own placements since then are added."""
REPORT_LIFETIME = timedelta(minutes=15)
"""A report older than this says nothing any more: whoever should have renewed it is away."""


class ClusterReport(Record):
    """What an observer last said of its region's cluster; GPUs are devices, `gpus_free` those that no pod has asked for."""

    region: str
    at: AwareDatetime
    nodes: int
    gpus_total: int
    gpus_free: int


class Reports(Protocol):
    """The latest report of each region."""

    async def latest(self, regions: Sequence[str]) -> Mapping[str, ClusterReport]:
        """By region; one that has never been reported is left out."""
        ...


class Backlog(Protocol):
    """How many jobs stand in each state."""

    async def by_region(self, regions: Sequence[str]) -> Mapping[str, Mapping[State, int]]:
        """Jobs by region and state."""
        ...


@dataclass(kw_only=True)
class _Snapshot:
    read_at: datetime
    free: dict[str, int]
    waiting: dict[str, int]
    placed_jobs: Counter[str] = field(default_factory=Counter)
    placed_gpus: Counter[str] = field(default_factory=Counter)


class RegionPlacement:
    """Implements `shared.jobs.submission.Placement`."""

    def __init__(self, *, regions: Sequence[str], reports: Reports, backlog: Backlog, clock: Clock) -> None:
        self._regions = tuple(regions)
        self._reports = reports
        self._backlog = backlog
        self._clock = clock
        self._snapshot: _Snapshot | None = None
        self._reading = asyncio.Lock()

    @property
    def regions(self) -> Sequence[str]:
        """The regions of this fleet."""
        return self._regions

    async def place(self, gpus: int) -> str:
        """The region for a job of so many GPUs. Raises UnavailableError where nothing is known and the table doesn't answer.

        Where no region has reported enough free GPUs (or none has reported at all), the shortest ready list decides alone.
        """
        if len(self._regions) == 1:
            return self._regions[0]
        known = await self._known()
        room = [region for region in self._regions if known.free.get(region, -1) - known.placed_gpus[region] >= gpus]
        chosen = min(room or self._regions, key=lambda region: self._rank(known, region))
        known.placed_jobs[chosen] += 1
        known.placed_gpus[chosen] += gpus
        return chosen

    def _rank(self, known: _Snapshot, region: str) -> tuple[int, int]:
        """Shorter list first; of equal ones, more free GPUs first. Then the order of the settings, since `min` keeps it."""
        free = known.free.get(region, 0) - known.placed_gpus[region]
        return known.waiting.get(region, 0) + known.placed_jobs[region], -free

    async def _known(self) -> _Snapshot:
        async with self._reading:
            now = self._clock.now()
            if self._snapshot is None or not timedelta(0) <= now - self._snapshot.read_at < FRESH:
                reports, counts = await asyncio.gather(self._reports.latest(self._regions), self._backlog.by_region(self._regions))
                fresh = {region: report.gpus_free for region, report in reports.items() if now - report.at < REPORT_LIFETIME}
                waiting = {region: counts[region][State.QUEUED] for region in self._regions}
                self._snapshot = _Snapshot(read_at=now, free=fresh, waiting=waiting)
            return self._snapshot

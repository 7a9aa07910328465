"""Where a job goes that may run anywhere: to an open region with free GPUs for it, and of those to the one with the shortest ready list.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionFacts:
    """What is known of one region: the latest report on its cluster, None where there never was one, and whether it is drained."""

    report: ClusterReport | None = None
    drained: bool = False


class Facts(Protocol):
    """What is known of regions."""

    async def facts(self, regions: Sequence[str]) -> Mapping[str, RegionFacts]:
        """By region, every one named."""
        ...


class Backlog(Protocol):
    """How many jobs stand in each state."""

    async def by_region(self, regions: Sequence[str]) -> Mapping[str, Mapping[State, int]]:
        """Jobs by region and state."""
        ...


@dataclass(kw_only=True)
class _Snapshot:
    read_at: datetime
    open: Sequence[str]
    free: dict[str, int]
    waiting: dict[str, int]
    placed_jobs: Counter[str] = field(default_factory=Counter)
    placed_gpus: Counter[str] = field(default_factory=Counter)


class RegionPlacement:
    """Implements `shared.jobs.submission.Placement`."""

    def __init__(self, *, regions: Sequence[str], facts: Facts, backlog: Backlog, clock: Clock) -> None:
        self._regions = tuple(regions)
        self._facts = facts
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

        Where no region has reported enough free GPUs (or none has reported at all), the shortest ready list decides alone. Where every
        region is drained the job waits in one of them all the same: the first that is resumed gets it.
        """
        if len(self._regions) == 1:
            return self._regions[0]
        known = await self._known()
        return self._choose(known, known.open or self._regions, gpus)

    async def open_region(self, gpus: int) -> str | None:
        """The same, but None where every region is drained."""
        known = await self._known()
        return self._choose(known, known.open, gpus) if known.open else None

    def _choose(self, known: _Snapshot, regions: Sequence[str], gpus: int) -> str:
        room = [region for region in regions if known.free.get(region, -1) - known.placed_gpus[region] >= gpus]
        chosen = min(room or regions, key=lambda region: self._rank(known, region))
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
                facts, counts = await asyncio.gather(self._facts.facts(self._regions), self._backlog.by_region(self._regions))
                reports = [fact.report for fact in facts.values() if fact.report is not None]
                self._snapshot = _Snapshot(
                    read_at=now,
                    open=[region for region in self._regions if not facts[region].drained],
                    free={report.region: report.gpus_free for report in reports if now - report.at < REPORT_LIFETIME},
                    waiting={region: counts[region][State.QUEUED] for region in self._regions},
                )
            return self._snapshot

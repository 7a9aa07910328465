"""Reads the fleet's health, and asks the less the less there is to tell.

While no job is unfinished, one batch read of the table says so and is all that is asked of it. Queues are counted by SQS, and scrapes
lie in S3. What changes slowly (loops, webhooks) is read every quarter of an hour. For an idle fleet that is one request of DynamoDB a
snapshot and four an hour, for all of its regions together.

Of an open region whose observer never told of it, or whose GPUs nobody ever read though somebody should, nothing is known: that counts as
unread, since what was never there has no age by which it could be missed. A drained one may still be in the making.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

from shared.clock import Clock
from shared.errors import UnavailableError
from shared.health.beats import Beat, seconds_before
from shared.health.model import Backlog, Dispatched, FleetHealth, LoopHealth, QueueHealth, RegionHealth, WebhookHealth
from shared.jobs.states import State
from shared.store.backlogs import Backlogs, Overview

SLOWLY: Final = timedelta(minutes=15)
BUSY_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 300.0
"""How often whoever tells of the fleet reads it: an idle one costs 288 requests of DynamoDB a day, and 96 for what changes slowly."""

_SCRAPES: Final = "scrapes"

T = TypeVar("T")


class DeadLetterCounts(Protocol):
    """How many dead letters there are (`shared.queues.dead_letters`)."""

    async def queues(self) -> Mapping[str, int]:
        """By the names of their queues. Raises UnavailableError."""
        ...


class Loops(Protocol):
    """What processes tell of their loops (`shared.store.beats`)."""

    async def latest(self) -> Sequence[Beat]:
        """Of all that have not ended. Raises UnavailableError."""
        ...


class WebhookBacklog(Protocol):
    """How deliveries fare (`shared.health.webhooks`)."""

    async def read(self, now: datetime, *, webhooks: int) -> WebhookHealth:
        """`webhooks` is how many there are. Raises UnavailableError."""
        ...


class Scrapes(Protocol):
    """When the GPUs of regions were last read (`shared.health.scrapes`)."""

    async def taken_at(self, regions: Sequence[str]) -> Mapping[str, datetime]:
        """By region; one that never was is left out. Raises UnavailableError."""
        ...


class HealthReader:
    """Reads snapshots. It keeps what changes slowly, so that one reader serves a process."""

    def __init__(
        self,
        *,
        regions: Sequence[str],
        backlogs: Backlogs,
        dead_letters: DeadLetterCounts,
        loops: Loops,
        webhooks: WebhookBacklog,
        scrapes: Scrapes,
        clock: Clock,
        scraped: bool = False,
    ) -> None:
        """`scraped`: there is a worker that reads GPUs, so that each open region must have been read."""
        self._regions = regions
        self._backlogs = backlogs
        self._dead_letters = dead_letters
        self._loops = loops
        self._webhooks = webhooks
        self._scrapes = scrapes
        self._clock = clock
        self._scraped = scraped
        self._slow_until: datetime | None = None
        self._beats: Sequence[Beat] = ()
        self._webhook_health: WebhookHealth | None = None
        self._latencies: dict[str, tuple[Mapping[str, int], Dispatched | None]] = {}

    async def read(self, *, all_of_it: bool = False) -> FleetHealth:
        """One snapshot; with `all_of_it`, what changes slowly is read too. Raises UnavailableError where the table doesn't answer."""
        now = self._clock.now()
        overview = await self._backlogs.overview(self._regions)
        unread: dict[str, str] = {}

        async def part(name: str, reading: Awaitable[T], otherwise: T) -> T:
            try:
                return await reading
            except UnavailableError as error:
                unread[name] = str(error)
                return otherwise

        counts, taken, _ = await asyncio.gather(
            part("dead letters", self._dead_letters.queues(), {}),
            part(_SCRAPES, self._scrapes.taken_at(self._regions), {}),
            part("loops and webhooks", self._slow(now, overview, anew=all_of_it), None),
        )
        regions = await asyncio.gather(*(self._region(region, now, overview, taken) for region in self._regions))
        unread |= {about: why for one in regions for about, why in self._never_told(one, scrapes_are_known=_SCRAPES not in unread)}
        return FleetHealth(
            at=now,
            regions=tuple(regions),
            queues=tuple(QueueHealth(queue=name, dead_letters=count) for name, count in counts.items()),
            webhooks=self._webhook_health,
            loops=self._loop_health(now),
            unread=unread,
        )

    def _never_told(self, one: RegionHealth, *, scrapes_are_known: bool) -> Iterator[tuple[str, str]]:
        if one.drained:
            return
        if one.observed_seconds is None:
            yield f"the cluster of {one.region}", "no observer has ever told of it"
        if self._scraped and scrapes_are_known and one.scraped_seconds is None:
            yield f"the GPUs of {one.region}", "no scrape has ever read them"

    def _loop_health(self, now: datetime) -> tuple[LoopHealth, ...]:
        found = [beat.health(now) for beat in self._beats]
        return tuple(sorted(found, key=lambda loop: (loop.worker, loop.region or "", loop.owner)))

    async def _slow(self, now: datetime, overview: Overview, *, anew: bool) -> None:
        if not anew and self._slow_until is not None and now < self._slow_until:
            return
        self._beats = await self._loops.latest()
        self._webhook_health = await self._webhooks.read(now, webhooks=overview.webhooks)
        self._slow_until = now + SLOWLY

    async def _region(self, region: str, now: datetime, overview: Overview, taken: Mapping[str, datetime]) -> RegionHealth:
        jobs = {state.value: overview.jobs[region].get(state, 0) for state in State}
        report = overview.reports.get(region)
        ready, claims, overdue = Backlog(), Backlog(), Backlog()
        if jobs[State.QUEUED]:
            ready, claims = await asyncio.gather(self._backlogs.ready(region, now), self._backlogs.claims(region, now))
            jobs[State.QUEUED], jobs[State.CLAIMED] = max(0, jobs[State.QUEUED] - claims.count), claims.count
        if any(jobs[state] for state in State if not state.terminal):
            overdue = await self._backlogs.overdue(region, now)
        return RegionHealth(
            region=region,
            drained=region in overview.drained,
            jobs=jobs,
            # Of a list that is longer than what was read, the counter tells more: it has waiting jobs too, but those are few.
            ready=ready if ready.exact else ready.model_copy(update={"count": max(ready.count, jobs[State.QUEUED])}),
            claims=claims,
            overdue=overdue,
            dispatched=await self._dispatched(region, now, overview.jobs[region]),
            observed_seconds=None if report is None else seconds_before(now, report.at),
            scraped_seconds=seconds_before(now, taken[region]) if region in taken else None,
        )

    async def _dispatched(self, region: str, now: datetime, counted: Mapping[str, int]) -> Dispatched | None:
        """Read anew only when something has moved: what has not can't have been committed since."""
        known = self._latencies.get(region)
        if known is not None and known[0] == counted:
            return known[1]
        found = await self._backlogs.dispatched(region, now) if any(counted.values()) else None
        self._latencies[region] = (dict(counted), found)
        return found


class KeptHealth:
    """The newest snapshot, read again when it is older than whoever asks wants; several who ask at once are given the same."""

    def __init__(self, reader: HealthReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._kept: FleetHealth | None = None
        self._reading = asyncio.Lock()

    async def get(self, *, busy_seconds: float = BUSY_SECONDS, idle_seconds: float = IDLE_SECONDS, all_of_it: bool = False) -> FleetHealth:
        """A snapshot that is not older than this. Raises UnavailableError."""
        async with self._reading:
            kept = self._kept
            if kept is None or seconds_before(self._clock.now(), kept.at) >= (idle_seconds if kept.idle else busy_seconds):
                self._kept = kept = await self._reader.read(all_of_it=all_of_it)
            return kept

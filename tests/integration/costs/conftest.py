"""A region whose usage a test decides, and reports of it in the emulator's bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.costs.backlog import Backlog
from shared.costs.model import NodeUsage, PodUsage, Rate, Window
from shared.costs.report_store import ReportStore
from shared.costs.reporting import Reporter
from shared.costs.usage import Usage
from shared.ids import RandomIds
from shared.store.objects import S3Objects
from tests.unit.costs.builders import DAY, REGION

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass
class Hands:
    """A clock that a test sets."""

    at: datetime

    def now(self) -> datetime:
        return self.at


@dataclass
class Told:
    """What observers told: nodes, pods, and the time up to which they did."""

    nodes: list[NodeUsage] = field(default_factory=list)
    pods: list[PodUsage] = field(default_factory=list)
    since: datetime | None = None
    until: datetime = LATER
    asked: list[Window] = field(default_factory=list)

    async def usage(self, region: str, window: Window) -> Usage:
        self.asked.append(window)
        complete = min(max(self.until, window.start), window.end)
        gaps = [Window(complete, window.end)] if complete < window.end else []
        if self.since is not None and self.since > window.start:
            gaps.insert(0, Window(window.start, self.since))
        return Usage(
            window=window,
            nodes=[one for one in self.nodes if window.overlap(*one.span)],
            pods=[one for one in self.pods if window.overlap(*one.span) or window.holds(one.start)],
            complete_to=gaps[0].start if gaps else window.end,
            gaps=gaps,
            final=self.until > window.end,
            all_pods=True,
        )


class Flat:
    """Every machine costs 36 USD an hour."""

    async def rates(self, machine, window):
        return [Rate(start=window.start, usd_per_hour=Decimal(36), source="test", as_of=DAY)]


@dataclass
class Costs:
    """The parts of a test."""

    objects: S3Objects
    store: ReportStore
    told: Told
    clock: Hands

    def reporter(self, **options) -> Reporter:
        return Reporter(
            region=REGION,
            usage=self.told,
            prices=Flat(),
            store=self.store,
            clock=self.clock,
            nonce=RandomIds().nonce,
            **options,
        )

    def backlog(self, *, minutes: int = 60, days: int = 7) -> Backlog:
        return Backlog(
            region=REGION,
            store=self.store,
            objects=self.objects,
            clock=self.clock,
            length=timedelta(minutes=minutes),
            look_back=timedelta(days=days),
        )

    async def begins(self, moment: datetime) -> None:
        """An observer has told of this hour."""
        await self.objects.put(f"usage/region={REGION}/date={moment:%Y-%m-%d}/hour={moment:%H}/o.json.gz", b"")


@pytest.fixture
def costs(fleet_resources) -> Costs:
    objects = S3Objects(fleet_resources.aws.s3, fleet_resources.settings.bucket)
    return Costs(objects=objects, store=ReportStore(objects), told=Told(), clock=Hands(datetime(2026, 5, 18, 12, 0, 30, tzinfo=UTC)))

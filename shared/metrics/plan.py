"""What metrics in CloudWatch cost: how many there are of a snapshot, and what so many cost a month.

A metric is a name with its dimensions, and is paid for by the hour in which it is written: what stands here is the price of a month in
which there are always as many as now. A job of ten minutes costs an hour of its metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from shared.metrics.cloudwatch_writing import batches
from shared.metrics.rollups import REGIONAL, data_of
from shared.metrics.series import Rollup
from shared.metrics.snapshot import Snapshot
from shared.metrics.vocabulary import Measure

PRICES_OF: Final = date(2026, 5, 4)
"""As of when https://aws.amazon.com/cloudwatch/pricing/ had these prices, for us-east-1: metrics and requests as copied by
https://github.com/api-evangelist/cloudwatch (`plans/`) on that day; https://cloudburn.io/blog/amazon-cloudwatch-pricing tells the same of
February 2026."""
UNCERTAIN: Final = (
    "prices are those of us-east-1; those of other regions are said to be up to a quarter higher",
    "what an account has for nothing (10 metrics, a million requests a month) is not taken off",
    "the price above a million metrics (0.02 USD) was read in April 2022 and not confirmed since",
)
"""What of this isn't known well; the free amounts are told by the pricing page itself."""
_TIERS: Final = (
    (10_000, Decimal("0.30")),
    (240_000, Decimal("0.10")),
    (750_000, Decimal("0.05")),
    (None, Decimal("0.02")),
)
"""How many metrics of an account and region a tier has, and what one of them costs in a month of 730 hours, in USD."""
REQUESTS_USD: Final = Decimal("0.01")
"""A thousand requests of PutMetricData."""
MONTH_HOURS: Final = 730


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One rollup: how many groups of devices it has now, and their metrics."""

    rollup: Rollup | None
    """None: what each region has beside."""
    groups: int
    metrics: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Metrics and their price in USD a month; `requests` are PutMetricData calls a month."""

    lines: tuple[Line, ...]
    requests: int

    @property
    def metrics(self) -> int:
        """All of them."""
        return sum(line.metrics for line in self.lines)

    @property
    def metrics_usd(self) -> Decimal:
        """What they cost, as if no other metric were in the account."""
        return price_of(self.metrics)

    @property
    def requests_usd(self) -> Decimal:
        """What writing them costs."""
        return (Decimal(self.requests) / 1000 * REQUESTS_USD).quantize(Decimal("0.01"))

    @property
    def total_usd(self) -> Decimal:
        """Both."""
        return self.metrics_usd + self.requests_usd


def price_of(metrics: int) -> Decimal:
    """USD a month of so many metrics."""
    left, total = metrics, Decimal(0)
    for size, price in _TIERS:
        here = left if size is None else min(left, size)
        total += here * price
        left -= here
    return total


def plan(snapshots: Iterable[Snapshot], rollups: Sequence[Rollup], measures: Collection[Measure], *, seconds: float) -> Plan:
    """The plan of what is there now, read every so many seconds."""
    taken = list(snapshots)
    lines = []
    for rollup in rollups:
        data = [datum for snapshot in taken for datum in data_of(snapshot, [rollup], measures)[:-REGIONAL]]
        groups = {tuple((one["Name"], one["Value"]) for one in datum["Dimensions"]) for datum in data}
        lines.append(Line(rollup=rollup, groups=len(groups), metrics=len(data)))
    if rollups:
        lines.append(Line(rollup=None, groups=len(taken), metrics=len(taken) * REGIONAL))
    calls = sum(len(list(batches(data_of(snapshot, rollups, measures)))) for snapshot in taken)
    return Plan(lines=tuple(lines), requests=round(calls * MONTH_HOURS * 3600 / seconds))

"""Bodies of the fleet's cost group. Money is in USD, as decimal texts, so that no digit is lost."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Self

from pydantic import BaseModel, Field

from shared.costs.model import Window
from shared.costs.queries import Answer
from shared.costs.report_keys import ReportKeys
from shared.costs.summaries import Summary
from shared.costs.totals import By, Total
from shared.jobs.fields import Strict
from shared.store.objects import Listed
from shared.times import Moment

MAX_MISSING = 100


class Span(BaseModel):
    """A time, up to but not with its end."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, window: Window) -> Self:
        """A window as it is told."""
        return cls(start=window.start, end=window.end)


class CostTotal(BaseModel):
    """What all rows of one value used and cost. `unpriced_*` are hours whose price nobody knows: their cost is missing."""

    key: str
    name: str | None = Field(description="Of the job, where rows are by job or by execution.")
    idle: bool = Field(description="Whether it is what nobody asked for of the nodes.")
    cpu_core_hours: Decimal
    ram_gib_hours: Decimal
    gpu_hours: Decimal
    cpu_cost: Decimal
    ram_cost: Decimal
    gpu_cost: Decimal
    total_cost: Decimal
    unpriced_core_hours: Decimal
    unpriced_gpu_hours: Decimal

    @classmethod
    def of(cls, total: Total) -> Self:
        """A total as it is told."""
        return cls(**{name: getattr(total, name) for name in cls.model_fields})


class CostTotalsAnswer(BaseModel):
    """Totals, the most expensive first; `count` and `total_cost` are of all, not only of those that are told."""

    region: str
    start: datetime
    end: datetime
    by: By
    label: str | None
    count: int
    total_cost: Decimal
    totals: list[CostTotal]
    reports: int = Field(description="How many reports were summed up.")
    incomplete: int = Field(description="How many of them know only a part of their window.")
    missing: list[Span] = Field(max_length=MAX_MISSING, description="Times without a report, the first hundred.")

    @classmethod
    def of(cls, answer: Answer, *, region: str, by: By, label: str | None, limit: int, **more: object) -> Self:
        """An answer as it is told."""
        return cls.model_validate(
            {
                "region": region,
                "start": answer.window.start,
                "end": answer.window.end,
                "by": by,
                "label": label,
                "count": len(answer.totals),
                "total_cost": answer.total_cost,
                "totals": [CostTotal.of(total) for total in answer.totals[:limit]],
                "reports": len(answer.reports),
                "incomplete": answer.incomplete,
                "missing": [Span.of(window) for window in answer.missing[:MAX_MISSING]],
                **more,
            }
        )


class CostsOfTimeAnswer(CostTotalsAnswer):
    """The same of the schedule's reports that lie within a time."""

    next_report_after: datetime = Field(description="When the schedule's present window ends: a report of it is written then.")


class CostSummary(Summary):
    """A report in figures."""


class CostReportTotalsAnswer(CostTotalsAnswer):
    """The same of one report. Its summary is of all namespaces, and only for callers who may see them."""

    key: str
    summary: CostSummary | None


class CostReportEntry(BaseModel):
    """A report in the bucket."""

    key: str
    region: str
    adhoc: bool
    window_start: datetime
    window_end: datetime
    size_bytes: int
    last_modified: datetime

    @classmethod
    def of(cls, keys: ReportKeys, listed: Listed) -> Self:
        """A stored report as it is told."""
        return cls(
            key=keys.allocation,
            region=keys.region,
            adhoc=keys.adhoc,
            window_start=keys.window.start,
            window_end=keys.window.end,
            size_bytes=listed.size,
            last_modified=listed.modified,
        )


class CostReportsAnswer(BaseModel):
    """Reports, newest first."""

    region: str
    bucket: str
    reports: list[CostReportEntry]


class CostReportWanted(Strict):
    """A report of the last hours (24, unless said), or of a time of 5 minutes to 7 days."""

    region: str | None = Field(default=None, min_length=1, max_length=64)
    hours: int | None = Field(default=None, ge=1, le=168)
    start: Moment | None = None
    end: Moment | None = None

"""The reports of one region behind the port that the GCO door has (`reports.CostReports`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from shared.clock import Clock
from shared.costs.model import Window
from shared.costs.opencost import OpenCost
from shared.costs.report_keys import ReportKeys
from shared.costs.report_store import ReportStore
from shared.costs.reporting import Reporter
from shared.costs.reports import Generated, Report, Status, StoredReport
from shared.costs.summaries import Summary
from shared.costs.windows import checked, last_completed, last_hours, next_due

MAX_NAMES: Final = 25
_LATE: Final = 3
"""After so many windows without a report somebody should know."""


class RegionCosts:
    """Makes and finds the reports of one region. `length` is that of the schedule's windows."""

    def __init__(
        self,
        *,
        region: str,
        cluster: str,
        bucket: str,
        store: ReportStore,
        reporter: Reporter,
        clock: Clock,
        length: timedelta,
        opencost: OpenCost | None = None,
    ) -> None:
        self.bucket = bucket
        self._region = region
        self._cluster = cluster
        self._store = store
        self._reporter = reporter
        self._clock = clock
        self._length = length
        self._opencost = opencost

    async def status(self) -> Status:
        """How costs are measured now. Without an OpenCost, the names are those of the last report."""
        newest = await self._store.newest(self._region, adhoc=False, limit=1)
        summary = await self._store.summary(newest[0][0]) if newest else None
        healthy = self._opencost is not None and await self._opencost.healthy()
        told = await self._opencost.probe() if self._opencost is not None and healthy else None
        rows = await self._store.rows(newest[0][0]) if newest and self._opencost is None else None
        return Status(
            cluster=self._cluster,
            bucket=self.bucket,
            bucket_source="environment",
            bucket_parameter=None,
            report_interval_minutes=int(self._length.total_seconds()) // 60,
            opencost_healthy=healthy,
            opencost_returning_data=bool(told),
            allocation_names=(told or [row.namespace for row in rows or ()])[:MAX_NAMES],
            last_scheduled_report=report_of(summary) if summary else None,
            last_error=self._trouble(summary, healthy=healthy),
        )

    def _trouble(self, summary: Summary | None, *, healthy: bool) -> str | None:
        """What is wrong as far as it can be seen from here."""
        now = self._clock.now()
        last = last_completed(now, self._length)
        if summary is None:
            return f"no scheduled report yet; the first comes after {next_due(now, self._length):%Y-%m-%d %H:%M} UTC"
        if last.end - summary.window_end >= _LATE * self._length:
            return f"the last report ends at {summary.window_end.isoformat()}; no cost worker seems to run, or it can't write"
        if self._opencost is not None and not healthy:
            return "OpenCost does not answer"
        if summary.opencost is not None and summary.opencost.error is not None:
            return summary.opencost.error
        return None

    async def stored(self, *, adhoc: bool, limit: int) -> Sequence[StoredReport]:
        """The newest reports: those of the schedule, or those that were asked for."""
        found = await self._store.newest(self._region, adhoc=adhoc, limit=limit)
        return [StoredReport(key=one.key, size_bytes=one.size, last_modified=one.modified) for _, one in found]

    async def generate(self, *, window_hours: int) -> Generated:
        """A report of the last hours, written now."""
        _, made = await self.generate_window(last_hours(window_hours, now=self._clock.now()))
        return made

    async def generate_window(self, window: Window) -> tuple[Summary, Generated]:
        """A report of any window of 5 minutes to 7 days. Raises InvalidError; NotFoundError where no observer told of any of it."""
        keys, written = await self._reporter.adhoc(checked(window, now=self._clock.now()))
        rows = await self._store.rows(keys) or []
        return written.summary, Generated(bucket=self.bucket, report=report_of(written.summary), rows=rows)

    async def summary(self, keys: ReportKeys) -> Summary | None:
        """The summary of a report; None where there is none."""
        return await self._store.summary(keys)


def report_of(summary: Summary) -> Report:
    """A report as it is told."""
    return Report(
        s3_key=summary.allocation_key,
        row_count=summary.row_count,
        total_cost=summary.total_cost,
        window_start=summary.window_start,
        window_end=summary.window_end,
    )

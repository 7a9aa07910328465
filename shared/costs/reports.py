"""The records of cost reports, and the port behind which they are made.

A report covers a window of time and has one row for each namespace (and OpenCost's own `__idle__` and `__unallocated__`), the most
expensive first. Money is Decimal, in USD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from pydantic import AwareDatetime

from shared.jobs.model import Record


class AllocationRow(Record):
    """What one namespace used and cost in a window. Usage in core hours, GiB hours and device hours; efficiency from 0 to 1."""

    window_start: AwareDatetime
    window_end: AwareDatetime
    cluster: str
    namespace: str
    cpu_core_hours: Decimal
    cpu_cost: Decimal
    ram_gib_hours: Decimal
    ram_cost: Decimal
    gpu_hours: Decimal
    gpu_cost: Decimal
    pv_cost: Decimal
    network_cost: Decimal
    load_balancer_cost: Decimal
    shared_cost: Decimal
    external_cost: Decimal
    total_cost: Decimal
    total_efficiency: Decimal


class Report(Record):
    """A report that was written."""

    s3_key: str
    row_count: int
    total_cost: Decimal
    window_start: AwareDatetime
    window_end: AwareDatetime


class StoredReport(Record):
    """A report as it is found in the bucket."""

    key: str
    size_bytes: int
    last_modified: AwareDatetime


class Status(Record):
    """Whether costs are measured, and what came of it last. `bucket_source` says where the bucket's name is from."""

    cluster: str
    bucket: str | None
    bucket_source: str | None
    bucket_parameter: str | None
    report_interval_minutes: int
    opencost_healthy: bool
    opencost_returning_data: bool
    allocation_names: list[str]
    last_scheduled_report: Report | None
    last_error: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Generated:
    """A report that was asked for, and its rows."""

    bucket: str
    report: Report
    rows: Sequence[AllocationRow]


class CostReports(Protocol):
    """Makes and finds the reports of one region. All raise UnavailableError; what says why, for its callers, NotHereError."""

    @property
    def bucket(self) -> str:
        """Where the reports are."""
        ...

    async def status(self) -> Status:
        """How costs are measured now."""
        ...

    async def stored(self, *, adhoc: bool, limit: int) -> Sequence[StoredReport]:
        """The newest reports: those of the schedule, or those that were asked for."""
        ...

    async def generate(self, *, window_hours: int) -> Generated:
        """A report of the last hours, written now. Raises NotFoundError where nothing is known of them."""
        ...

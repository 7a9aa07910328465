"""Bodies of the cost group."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field

from shared.costs.reports import AllocationRow, Report, Status, StoredReport
from shared.jobs.fields import Strict


class CostReportRequest(Strict):
    """A report of the last hours."""

    window_hours: int = Field(default=24, ge=1, le=168)
    include_rows: bool = False


class CostReport(BaseModel):
    """A report that was written. Money in USD."""

    s3_key: str
    row_count: int
    total_cost: float
    window_start: datetime
    window_end: datetime

    @classmethod
    def of(cls, report: Report) -> Self:
        """A report as it is told."""
        return cls(**report.model_dump())


class CostRow(BaseModel):
    """What one namespace used and cost in the window. Usage in core hours, GiB hours and device hours, money in USD."""

    window_start: datetime
    window_end: datetime
    cluster: str
    namespace: str
    cpu_core_hours: float
    cpu_cost: float
    ram_gib_hours: float
    ram_cost: float
    gpu_hours: float
    gpu_cost: float
    pv_cost: float
    network_cost: float
    load_balancer_cost: float
    shared_cost: float
    external_cost: float
    total_cost: float
    total_efficiency: float

    @classmethod
    def of(cls, row: AllocationRow) -> Self:
        """A row as it is told."""
        return cls(**row.model_dump())


class CostStatusAnswer(BaseModel):
    """Whether costs are measured in this region, and what came of it last."""

    service: str
    region: str
    cluster: str
    bucket: str | None
    bucket_source: str | None = Field(description="`environment` or `ssm`")
    bucket_parameter: str | None
    report_interval_minutes: int
    opencost_healthy: bool
    opencost_returning_data: bool
    allocation_names: list[str] = Field(max_length=25)
    last_scheduled_report: CostReport | None
    last_error: str | None
    timestamp: datetime

    @classmethod
    def of(cls, status: Status, *, service: str, region: str, timestamp: datetime) -> Self:
        """A status as it is told."""
        return cls(service=service, region=region, timestamp=timestamp, **status.model_dump())


class StoredCostReport(BaseModel):
    """A report in the bucket."""

    key: str
    size_bytes: int
    last_modified: datetime

    @classmethod
    def of(cls, report: StoredReport) -> Self:
        """A stored report as it is told."""
        return cls(**report.model_dump())


class CostReportListAnswer(BaseModel):
    """Reports, newest first."""

    timestamp: datetime
    region: str
    bucket: str
    count: int
    reports: list[StoredCostReport]


class CostReportAnswer(BaseModel):
    """A report that was written; `rows` is there where it was asked for."""

    timestamp: datetime
    region: str
    bucket: str
    report: CostReport
    rows: list[CostRow] | None = None

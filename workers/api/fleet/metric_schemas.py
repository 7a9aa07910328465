"""Bodies about GPUs and what was measured of them."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field


class GpuReading(BaseModel):
    """A device, or one of its partitions, at the last scrape of its region. Who holds it is None for nobody.

    `device` is its name in the metrics; `divided`: its partitions are what pods hold, and stand beside it. `values` by measure; one that is
    missing the device doesn't have. Percent, MiB, W, C, MHz and Mb/s.
    """

    region: str
    node: str
    gpu: str
    device: str
    uuid: str | None
    vendor: str
    model: str | None
    partition: str | None
    profile: str | None
    divided: bool
    namespace: str | None
    pod: str | None
    container: str | None
    job_id: str | None
    execution: int | None
    job_name: str | None
    project: str | None
    values: dict[str, float]


class ExporterAnswer(BaseModel):
    """How an exporter answered the last scrape. `error` None: it did, in `seconds`; `broken_lines` of its text could not be read."""

    namespace: str
    pod: str
    node: str
    gpus: int
    seconds: float
    broken_lines: int
    error: str | None


class ScrapedRegion(BaseModel):
    """When a region was last read, and how. `stale`: longer ago than three intervals, so that nothing is known of the present.

    `exporters` is None for a caller who is bound to namespaces.
    """

    region: str
    scraped_at: datetime
    age_seconds: float
    stale: bool
    seconds: float
    gpus: int
    exporters_failed: int
    exporters: list[ExporterAnswer] | None


class GpusAnswer(BaseModel):
    """GPUs in the order of regions, nodes and devices. `count` are all that match; `partial`: not all of them are in `gpus`.

    A region that isn't among `regions` was never read.
    """

    regions: list[ScrapedRegion]
    gpus: list[GpuReading]
    count: int
    partial: bool


class PlannedRollup(BaseModel):
    """How many groups of devices these labels make now, and how many metrics. No labels: what each region has beside."""

    labels: list[str]
    groups: int
    metrics: int


class PlanAnswer(BaseModel):
    """Metrics in CloudWatch, and what they cost a month if there were always as many as now. Money in USD, exact, as text.

    `rollups` and `measures` are what `GPUFLEET_METRICS_ROLLUPS` and `GPUFLEET_METRICS_MEASURES` say, or the request.
    """

    regions: list[str]
    gpus: int
    rollups: list[PlannedRollup]
    measures: list[str]
    interval_seconds: float
    metrics: int
    metrics_usd: str
    requests: int
    requests_usd: str
    total_usd: str
    prices_of: str = Field(description="The day of which the prices are.")
    uncertain: list[str] = Field(description="What of it isn't known well.")


class MeasuredPoint(BaseModel):
    """The value at a time; None where nothing was measured."""

    time: datetime
    value: float | None


class MeasuredSeries(BaseModel):
    """One group of devices."""

    labels: dict[str, str]
    points: list[MeasuredPoint]


class MeasuredSeriesAnswer(BaseModel):
    """The answer to a question about what was measured, ordered by labels."""

    measure: str
    aggregation: str
    unit: str
    series: list[MeasuredSeries]

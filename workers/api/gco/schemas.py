"""Bodies of the GCO door's job queue, as its clients know them. The original declares no success bodies; ours are declared."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from shared.jobs.fields import JobFields
from workers.api import examples


class Env(BaseModel):
    """What the answers about a cluster begin with."""

    cluster_id: str
    region: str
    timestamp: datetime


class QueuedJobRequest(JobFields):
    """A job for the queue. `supporting`, `retry` and `timeouts` are additions to the original."""

    model_config = examples.shown(examples.JOB)


class StatusEntry(BaseModel):
    """One step of a job's history."""

    status: str
    timestamp: datetime
    message: str | None = None
    error: str | None = None


class QueuedJob(BaseModel):
    """A job's record. The `spot_` fields are there only for a job that waits for a price."""

    job_id: str
    job_name: str
    target_region: str
    namespace: str
    status: str = Field(description="queued, claimed, pending, running, succeeded, failed or cancelled")
    priority: int
    manifest: dict[str, Any]
    labels: dict[str, str]
    submitted_at: datetime
    submitted_by: str | None
    claimed_by: str | None
    claimed_at: datetime | None
    claim_generation: int
    lease_expires_at: datetime | None
    completed_at: datetime | None
    updated_at: datetime
    k8s_job_name: str | None
    k8s_job_namespace: str | None
    k8s_job_uid: str | None
    workload_not_created: bool
    error_message: str | None
    status_history: list[StatusEntry]
    spot_max_price: str | None = None
    spot_instance_type: str | None = None
    spot_gate_checked_at: datetime | None = None
    spot_gate_observed_price: str | None = None


class JobAnswer(BaseModel):
    """One job."""

    timestamp: datetime
    job: QueuedJob


class JobMessageAnswer(BaseModel):
    """One job, and what was done."""

    timestamp: datetime
    message: str
    job: QueuedJob


class JobListAnswer(BaseModel):
    """One page of jobs, newest first. The list goes on while `next_cursor` is not null, however many jobs the page has."""

    timestamp: datetime
    count: int
    jobs: list[QueuedJob]
    next_cursor: str | None
    partial: bool = Field(description="The page came out shorter than asked for, since what one page reads or weighs is bounded.")


class MessageAnswer(BaseModel):
    """What was done."""

    timestamp: datetime
    message: str


class StatsSummary(BaseModel):
    """Jobs in all regions. `complete` is always true, since the numbers come from counters of all jobs."""

    total_jobs: int
    total_queued: int
    total_running: int
    complete: bool
    records_evaluated: int


class StatsAnswer(BaseModel):
    """How many jobs stand in each state."""

    timestamp: datetime
    summary: StatsSummary
    by_region: dict[str, dict[str, int]]


class PollResult(BaseModel):
    """What a dispatch pass did with one job."""

    job_id: str
    status: str = Field(description="applied, fenced, retryable, failed, stopped or price_gated")


class PollAnswer(BaseModel):
    """One dispatch pass."""

    timestamp: datetime
    region: str
    jobs_polled: int
    jobs_processed: int
    results: list[PollResult]

"""Bodies of the regions' routes."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from shared.jobs.fields import Strict
from workers.api import examples

MAX_REASON = 512
"""Characters; as many as the reason of a cancel has."""


class DrainRequest(Strict):
    """What becomes of the jobs of a region that is drained."""

    model_config = examples.shown(examples.DRAIN)

    reason: str | None = Field(default=None, min_length=1, max_length=MAX_REASON, description="Why; shown wherever a job waits for it.")
    move: bool = Field(default=True, description="Move queued jobs that were submitted to `any` to an open region.")
    interrupt: bool = Field(
        default=False,
        description="Stop what runs, as if its machines were taken away: another execution follows, and no attempt is used up.",
    )


class ResumeRequest(Strict):
    """Why a region goes on."""

    model_config = examples.shown(examples.RESUME)

    reason: str | None = Field(default=None, min_length=1, max_length=MAX_REASON)


class RegionJobs(BaseModel):
    """Jobs that have not ended, by state."""

    queued: int
    claimed: int
    pending: int
    running: int


class RegionAnswer(BaseModel):
    """One region: `open`; `draining` while something of it may still run or be claimed; `drained` when nothing is."""

    region: str
    state: Literal["open", "draining", "drained"]
    since: datetime | None = Field(description="When that was decided; null for a region that was never drained.")
    by: str | None
    reason: str | None
    move: bool
    interrupt: bool
    jobs: RegionJobs | None = Field(description="Null for a caller who is bound to namespaces: they are counted over all of them.")


class RegionsAnswer(BaseModel):
    """All regions of the fleet, in the order of its settings."""

    regions: list[RegionAnswer]

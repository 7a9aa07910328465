"""What a worker's process tells of its loop, so that whoever watches the fleet need not reach the process.

A beat is written when the process begins and ends, after its first good pass, when its loop begins to fail or to stall and when it is
well again, and otherwise every half hour: it costs a write each time, and a process says most by what it doesn't say.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Protocol

from pydantic import AwareDatetime

from shared.health.model import LoopHealth, LoopState
from shared.jobs.model import Record

EVERY: Final = timedelta(minutes=30)
SILENT_AFTER: Final = 2 * EVERY + timedelta(minutes=5)
"""Two beats were missed."""
STALLED_AFTER: Final = timedelta(minutes=5)
"""How long a pass may be under way: none does more than a few seconds' work, and every call in it has its own limit."""


class Progress(Protocol):
    """What a loop notes of its passes (`workers.loops.Passes`)."""

    @property
    def started_at(self) -> datetime | None:
        """When the last pass began."""
        ...

    @property
    def succeeded_at(self) -> datetime | None:
        """When a pass last did what there was to do."""
        ...

    @property
    def error(self) -> str | None:
        """What was wrong with the last pass; None where nothing was."""
        ...


class Beat(Record):
    """One process's loop at one time. `release` is what it runs, where that is known; those of 0.1 don't say."""

    worker: str
    region: str | None = None
    owner: str
    at: AwareDatetime
    state: LoopState = LoopState.WELL
    passed_at: AwareDatetime | None = None
    error: str | None = None
    ended: bool = False
    release: str | None = None

    def health(self, now: datetime) -> LoopHealth:
        """How the loop is, now."""
        return LoopHealth(
            worker=self.worker,
            region=self.region,
            owner=self.owner,
            state=LoopState.SILENT if now - self.at > SILENT_AFTER else self.state,
            told_seconds=seconds_before(now, self.at),
            passed_seconds=None if self.passed_at is None else seconds_before(now, self.passed_at),
            error=self.error,
            release=self.release,
        )


def state_of(passes: Progress, now: datetime) -> LoopState:
    """How a loop of this process is. One that waits for work is well, however long."""
    if passes.error is not None:
        return LoopState.FAILING
    under_way = passes.started_at is not None and (passes.succeeded_at is None or passes.succeeded_at < passes.started_at)
    return LoopState.STALLED if under_way and passes.started_at is not None and now - passes.started_at > STALLED_AFTER else LoopState.WELL


def seconds_before(now: datetime, moment: datetime) -> float:
    """How long ago; never negative, since clocks differ."""
    return max(0.0, (now - moment).total_seconds())

"""The fleet's health at one time. Ages are seconds before `FleetHealth.at`; None where there is nothing that could have one."""

from __future__ import annotations

from enum import StrEnum

from pydantic import AwareDatetime, Field

from shared.jobs.model import Record


class Backlog(Record):
    """Things that wait. `exact` False: there are at least so many; `oldest_seconds` is then that of the oldest that was looked at."""

    count: int = 0
    exact: bool = True
    oldest_seconds: float | None = None


class Dispatched(Record):
    """How long the jobs of a sample waited from submission to commit: the newest of those committed within the last hour, in seconds."""

    jobs: int
    median_seconds: float
    most_seconds: float


class RegionHealth(Record):
    """One region.

    `ready`: jobs that could be claimed now, with the age of the oldest since it was submitted. `claims`: jobs that a worker has claimed
    and not yet committed. `overdue`: due marks whose time has passed; the sweeper clears one within seconds. The last two ages are those
    of what the observer said of the cluster and of the last scrape of its GPUs. In a `drained` region nothing is claimed, however long it
    has been ready.
    """

    region: str
    drained: bool = False
    jobs: dict[str, int]
    ready: Backlog = Backlog()
    claims: Backlog = Backlog()
    overdue: Backlog = Backlog()
    dispatched: Dispatched | None = None
    observed_seconds: float | None = None
    scraped_seconds: float | None = None


class QueueHealth(Record):
    """One queue, by its name. SQS counts about right."""

    queue: str
    dead_letters: int


class WebhookHealth(Record):
    """Deliveries that are on their way, of which the oldest is overdue for so long; and webhooks that were disabled for failing."""

    waiting: int = 0
    overdue_seconds: float | None = None
    webhooks: int = 0
    disabled: int = 0


class LoopState(StrEnum):
    """How a worker's loop is."""

    WELL = "well"
    FAILING = "failing"  # its last pass failed
    STALLED = "stalled"  # a pass has been under way for minutes
    SILENT = "silent"  # nothing is heard of its process, which didn't say that it ends


class LoopHealth(Record):
    """A worker's loop, as its process last told of it, and the release that it runs. `region` None: it works for all."""

    worker: str
    region: str | None = None
    owner: str
    state: LoopState
    told_seconds: float
    passed_seconds: float | None = None
    error: str | None = None
    release: str | None = None


class FleetHealth(Record):
    """All of it. A part that could not be read is named in `unread` with what was in the way, and is left out or as it last was; so is what
    there should be of an open region and never was."""

    at: AwareDatetime
    regions: tuple[RegionHealth, ...] = ()
    queues: tuple[QueueHealth, ...] = ()
    webhooks: WebhookHealth | None = None
    loops: tuple[LoopHealth, ...] = ()
    unread: dict[str, str] = Field(default_factory=dict)

    @property
    def idle(self) -> bool:
        """Whether there is no unfinished job anywhere."""
        return not any(region.jobs.get(state, 0) for region in self.regions for state in _UNFINISHED)


_UNFINISHED = ("queued", "claimed", "pending", "running")

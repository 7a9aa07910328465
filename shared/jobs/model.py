"""The records of a job: head, specification, execution, event. Immutable; a change makes a new head.

Times are aware and in UTC, money is Decimal in USD per hour, durations are whole seconds.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer

from shared.jobs.states import State


class Record(BaseModel):
    """A frozen record without unknown fields. Its validator is built when it is first used: most are only ever parts of another's."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class RetryPolicy(Record):
    """How often an execution is tried, and how long between. Interruptions are counted apart from attempts."""

    max_attempts: int = Field(default=1, ge=1, le=100)
    backoff_seconds: int = Field(default=10, ge=0, le=3600)
    max_backoff_seconds: int = Field(default=600, ge=0, le=86400)
    max_interruptions: int = Field(default=10, ge=0, le=1000)


class Timeouts(Record):
    """Limits in seconds; None means no limit.

    `queue_seconds` from submission to the first commit, `execution_seconds` of one execution from its first running pod,
    `total_seconds` from submission to the end.
    """

    queue_seconds: int | None = Field(default=None, ge=1, le=31_536_000)
    execution_seconds: int | None = Field(default=None, ge=1, le=31_536_000)
    total_seconds: int | None = Field(default=None, ge=1, le=31_536_000)


class Spot(Record):
    """A job that runs on spot capacity of one instance type, and only while its price is under the cap (USD an hour)."""

    max_price: Decimal
    instance_type: str
    observed_price: Decimal | None = None
    checked_at: AwareDatetime | None = None


class Claim(Record):
    """A worker's time-limited right to apply one execution."""

    owner: str
    nonce: str
    claimed_at: AwareDatetime
    expires_at: AwareDatetime


class ClusterObject(Record):
    """The object of an execution on its cluster: *the* object once it has been committed, by its UID."""

    name: str
    uid: str


class StopIntent(StrEnum):
    """Why an execution is being stopped, and so what follows when the cluster has confirmed it."""

    CANCEL = "cancel"  # the job is cancelled
    EXECUTION_TIMEOUT = "execution_timeout"  # the attempt has failed; the retry policy decides
    TOTAL_TIMEOUT = "total_timeout"  # the job has failed
    QUEUE_TIMEOUT = "queue_timeout"  # the job has failed
    REFUSAL = "refusal"  # the cluster refused what supports the committed object; the job has failed
    INTERRUPTION = "interruption"  # a new execution; no attempt is used up


class Stop(Record):
    """A mark on a job that is to be stopped. A commit fails on it; it is lifted only by what follows the stop."""

    intent: StopIntent
    reason: str
    requested_at: AwareDatetime
    requested_by: str | None = None


class WaitKind(StrEnum):
    """Why a queued job is not in the ready list."""

    RETRY = "retry"  # the back-off after a failed attempt
    CLUSTER = "cluster"  # the cluster accepted nothing; tried again later
    SPOT = "spot"  # the spot price is above the job's cap, or unknown


class Wait(Record):
    """A queued job stands outside the ready list until a time."""

    kind: WaitKind
    until: AwareDatetime


Usd = Annotated[Decimal, PlainSerializer(lambda amount: f"{amount:f}", return_type=str, when_used="json")]
"""Money, written as readers expect it: `0.000000012`, and not `1.2E-8`."""


class Spent(Record):
    """What something has cost, in USD, as its observer reckoned it: `known_usd` is what is known of it, to 9 digits.

    Where that isn't all, `missing` says in a few words what isn't known, and there is no `usd`: a figure that is too small looks like one
    that is right.
    """

    known_usd: Usd = Decimal(0)
    missing: str | None = None

    @property
    def usd(self) -> Decimal | None:
        """All of it; None where that isn't known."""
        return self.known_usd if self.missing is None else None

    def __add__(self, other: Spent) -> Spent:
        """Both together; of two reasons why something is missing the first."""
        return Spent(known_usd=self.known_usd + other.known_usd, missing=self.missing or other.missing)


class Head(Record):
    """The truth about one job, in one item below 4 KB.

    `revision` is the number of the newest event: it grows with every change that tells of itself. `fence` grows with every claim.
    A writer names both as it read them; a write whose numbers are old is refused. `stamp` is the nonce of the last
    writer, by which it knows its own write again when the answer was lost.
    """

    id: str
    name: str
    namespace: str
    region: str
    state: State
    priority: int
    revision: int
    fence: int
    stamp: str
    spec_version: int
    spec_hash: str
    gpus: int
    submitted_at: AwareDatetime
    updated_at: AwareDatetime
    submitted_by: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    retry: RetryPolicy = RetryPolicy()
    timeouts: Timeouts = Timeouts()
    spot: Spot | None = None
    any_region: bool = False
    """It was submitted to any region: while it is queued, it may be moved to another one."""

    execution: int = 1
    attempts: int = 0
    interruptions: int = 0
    apply_failures: int = 0
    rings: int = 0
    ring_at: AwareDatetime | None = None
    claim: Claim | None = None
    object: ClusterObject | None = None
    stop: Stop | None = None
    wait: Wait | None = None
    committed_at: AwareDatetime | None = None
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    reason: str | None = None
    message: str | None = None
    spent: Spent | None = None
    """What the executions that have ended have cost (`spending.spent_before`). None until one has."""


class Specification(Record):
    """The manifest and the supporting objects of one version of a job; never changed once written."""

    job_id: str
    version: int
    manifest: dict[str, Any]
    supporting: list[dict[str, Any]] = Field(default_factory=list)


class Execution(Record):
    """One attempt to run one version of a job on one cluster, as it ended or as it stands."""

    job_id: str
    number: int
    spec_version: int
    region: str
    state: State
    object: ClusterObject | None = None
    claimed_by: str | None = None
    committed_at: AwareDatetime | None = None
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    reason: str | None = None
    message: str | None = None
    cost: Spent | None = None
    """What it has cost, once it has ended."""


class EventType(StrEnum):
    """What an event tells."""

    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    COMMITTED = "committed"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CLAIM_LAPSED = "claim_lapsed"
    CLAIM_RETURNED = "claim_returned"
    STOP_REQUESTED = "stop_requested"
    RETRY = "retry"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not_started"
    READY = "ready"
    UNSCHEDULABLE = "unschedulable"
    MOVED = "moved"


class PodCounts(Record):
    """Pods of an object on its cluster, as its status counts them: `active` those that run or wait for a place."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Event(Record):
    """One numbered entry of a job's history; `state` is the state that it led to.

    It says by itself whose job it is about, and how many pods the cluster counted where the cluster is what it tells of: whoever is told of
    it later needs nothing else that may have changed.
    """

    job_id: str
    namespace: str | None = None
    number: int
    type: EventType
    at: AwareDatetime
    state: State
    execution: int
    by: str | None = None
    reason: str | None = None
    message: str | None = None
    pods: PodCounts | None = None
    cost: Spent | None = None
    """What the job had cost by then, all its executions together; of those events that say so (`spending`)."""


class ReadyEntry(Record):
    """One place in a region's ready list. `order` sorts it: priority first, then time."""

    job_id: str
    region: str
    namespace: str
    fence: int
    priority: int
    order: str


def current_execution(head: Head) -> Execution | None:
    """The execution that the head tells of, or None while nothing has been claimed for it yet."""
    if head.claim is None and head.object is None and not head.state.terminal:
        return None
    return Execution(
        job_id=head.id,
        number=head.execution,
        spec_version=head.spec_version,
        region=head.region,
        state=head.state,
        object=head.object,
        claimed_by=head.claim.owner if head.claim else None,
        committed_at=head.committed_at,
        started_at=head.started_at,
        finished_at=head.finished_at,
        reason=head.reason,
        message=head.message,
    )


def earliest(*moments: datetime | None) -> datetime | None:
    """The earliest of those that are set."""
    return min((moment for moment in moments if moment is not None), default=None)

"""Bodies of the fleet's own door."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from shared.identity.callers import Right
from shared.identity.keys import NAME
from shared.jobs.fields import Strict
from shared.jobs.model import Event, Execution, RetryPolicy, Spent, Spot, Stop, Timeouts, Usd, Wait
from shared.store.rejections import Rejection
from workers.api import examples


class JobClaim(BaseModel):
    """Who applies the current execution, and until when they may. The claim's nonce is nobody else's business."""

    owner: str
    claimed_at: datetime
    expires_at: datetime


class JobCost(BaseModel):
    """What the executions of a job have cost that have ended, in USD."""

    usd: Usd | None = Field(description="All of it, once the job has ended and all of it is known.")
    known_usd: Usd = Field(description="What is known of it.")
    missing: str | None = Field(description="What isn't known of it.")

    @classmethod
    def of(cls, spent: Spent) -> Self:
        """A cost as it is shown."""
        return cls(usd=spent.usd, known_usd=spent.known_usd, missing=spent.missing)


class JobDetail(BaseModel):
    """All that is known of a job."""

    id: str
    name: str
    namespace: str
    region: str
    state: str
    priority: int
    revision: int
    fence: int
    gpus: int
    submitted_at: datetime
    updated_at: datetime
    submitted_by: str | None
    labels: dict[str, str]
    retry: RetryPolicy
    timeouts: Timeouts
    spot: Spot | None
    execution: int
    attempts: int
    interruptions: int
    apply_failures: int
    claim: JobClaim | None
    stop: Stop | None
    wait: Wait | None
    any_region: bool = Field(description="It was submitted to `any`: while it is queued, it may be moved.")
    held: str | None = Field(description="Why nobody may claim it now, where its region is drained.")
    committed_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    message: str | None
    cost: JobCost
    manifest: dict[str, Any]
    supporting: list[dict[str, Any]]
    executions: list[Execution]


class EventsAnswer(BaseModel):
    """A job's history, oldest first."""

    job_id: str
    events: list[Event]


class ExecutionsAnswer(BaseModel):
    """A job's executions, oldest first."""

    job_id: str
    executions: list[Execution]


class RejectionsAnswer(BaseModel):
    """One page of rejections, newest first."""

    rejections: list[Rejection]
    next_cursor: str | None


class QueueCount(BaseModel):
    """A queue and about how many dead letters it has."""

    queue: str
    dead_letters: int


class QueuesAnswer(BaseModel):
    """All queues."""

    queues: list[QueueCount]


class DeadLetter(BaseModel):
    """A message that no worker could handle."""

    id: str
    queue: str
    sent_at: datetime | None
    receive_count: int
    attributes: dict[str, str]
    body: str


class DeadLettersAnswer(BaseModel):
    """Dead letters of a queue, oldest first as far as SQS tells."""

    queue: str
    dead_letters: list[DeadLetter]


class DeadLetterChoice(Strict):
    """Which dead letters: either their ids, or all of them, said in so many words."""

    message_ids: list[str] | None = Field(default=None, min_length=1, max_length=1000)
    all: bool = False

    @model_validator(mode="after")
    def _one(self) -> DeadLetterChoice:
        if (self.message_ids is not None) == self.all:
            raise PydanticCustomError("value_error", 'must have either "message_ids" with at least one id, or "all": true')
        return self


class DeadLettersMovedAnswer(BaseModel):
    """What was done with which dead letters."""

    queue: str
    count: int
    message_ids: list[str]


MAX_KEY_SECONDS = 10 * 365 * 86_400
MAX_KEY_NAMESPACES = 20
"""A list of jobs costs a query for each of a caller's namespaces and states."""


class KeyRequest(Strict):
    """A key to be made. Its name is what `submitted_by` and events record, as `key:<name>`."""

    model_config = examples.shown(examples.KEY)

    name: str = Field(pattern=NAME, description="Of a-z, 0-9, '.', '_' and '-', at most 63; no two keys share one.")
    rights: list[Annotated[Right, Field(strict=False)]] = Field(min_length=1, max_length=len(Right))
    namespaces: list[Annotated[str, Field(min_length=1, max_length=63)]] | None = Field(
        default=None, min_length=1, max_length=MAX_KEY_NAMESPACES, description="Where the rights hold; everywhere, unless said."
    )
    expires_in_seconds: int | None = Field(default=None, ge=60, le=MAX_KEY_SECONDS, description="Never, unless said.")


class KeyAnswer(BaseModel):
    """What is known of a key; not the key."""

    id: str
    name: str
    rights: list[Right]
    namespaces: list[str] | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None


class KeyMadeAnswer(KeyAnswer):
    """A new key."""

    key: str = Field(description="Sent as `Authorization: Bearer …`. It is shown here and never again.")


class KeysAnswer(BaseModel):
    """All keys, by name."""

    keys: list[KeyAnswer]

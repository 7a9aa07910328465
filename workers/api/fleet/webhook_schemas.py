"""Bodies of the webhooks of the fleet's own door."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, WithJsonSchema

from shared.jobs.fields import Strict
from shared.times import Moment
from shared.webhooks.deliveries import SPARED, Attempt, Delivery, DeliveryState
from shared.webhooks.endpoints import EndpointEvent, EndpointHealth
from shared.webhooks.model import Webhook, WebhookEvent
from shared.webhooks.ports import Failure
from shared.webhooks.registration import MAX_SECRET, MIN_SECRET
from shared.webhooks.rotation import MAX_OVERLAP, OVERLAP

MAX_REASON = 200
_SECRET = {"anyOf": [{"type": "string", "minLength": MIN_SECRET, "maxLength": MAX_SECRET}, {"type": "null"}], "writeOnly": True}


class WebhookSummary(BaseModel):
    """A webhook and whether it is told of anything now."""

    id: str
    url: str
    events: list[WebhookEvent]
    namespace: str | None
    created_at: datetime
    created_by: str
    signed: bool
    rotated_at: datetime | None
    state: Literal["enabled", "disabled"]
    disabled_at: datetime | None
    disabled_reason: str | None

    @classmethod
    def of(cls, webhook: Webhook) -> Self:
        """A webhook as it is shown."""
        return cls(**webhook.model_dump(), state="enabled" if webhook.disabled_at is None else "disabled")


class WebhooksAnswer(BaseModel):
    """One page of webhooks, newest first."""

    webhooks: list[WebhookSummary]
    next_cursor: str | None


class HealthAnswer(BaseModel):
    """How the endpoint fares."""

    failures: int = Field(description="Attempts since the last one that was taken.")
    failing_since: datetime | None
    strikes: int = Field(description="Of the latest of them, those in a row that had no answer, or one in the 500s, 408, 425 or 429.")
    paused_until: datetime | None = Field(
        description="Until when it is spared: only deliveries that have failed before come meanwhile, at their own time, to show how it is."
    )
    last_failure_at: datetime | None
    last_failure: str | None
    last_success_at: datetime | None

    @classmethod
    def of(cls, health: EndpointHealth) -> Self:
        """What is shown of it."""
        return cls(**{name: getattr(health, name) for name in cls.model_fields})


class WebhookAnswer(WebhookSummary):
    """All that is known of a webhook."""

    health: HealthAnswer
    history: list[EndpointEvent] = Field(description="The latest of what was done to it, oldest first; `by` is null for the fleet itself.")


class DisableRequest(Strict):
    """Why."""

    reason: str | None = Field(default=None, min_length=1, max_length=MAX_REASON)


class RotateRequest(Strict):
    """A new secret."""

    secret: Annotated[Any, WithJsonSchema(_SECRET)] = Field(
        default=None,
        repr=False,
        description="Made by the fleet, unless given; one that the fleet makes is in the answer, and never shown again.",
    )
    """Of any type here, since FastAPI would show a wrong one in its answer; its rule is `secret_rule`."""
    overlap_seconds: int = Field(
        default=int(OVERLAP.total_seconds()),
        ge=0,
        le=int(MAX_OVERLAP.total_seconds()),
        description="For how long the secrets before it sign too.",
    )


class RotatedAnswer(BaseModel):
    """A webhook with a new secret."""

    webhook: WebhookSummary
    secret: str | None = Field(description="The new secret, where the fleet made it. It is shown here and never again.")
    overlap_until: datetime | None = Field(description="Until when the secret before it signs too.")


class TestAnswer(BaseModel):
    """What the endpoint answered to a test."""

    __test__ = False

    message_id: str
    delivered: bool
    status: int | None
    failure: Failure | None = Field(description="Why there was no answer.")
    text: str = Field(description="The beginning of the answer, or what there is to say of the failure.")
    latency_ms: int
    signed: bool


class AttemptAnswer(BaseModel):
    """One attempt."""

    at: datetime
    status: int | None
    failure: Failure | None
    text: str
    latency_ms: int

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """An attempt as it is shown."""
        return cls(**attempt.model_dump(exclude={"latency"}), latency_ms=attempt.latency)


class DeliverySummary(BaseModel):
    """One event on its way to the endpoint."""

    message_id: str = Field(description="What the receiver knows it by: `webhook-id`.")
    webhook_id: str
    job_id: str
    number: int
    event: WebhookEvent
    namespace: str
    at: datetime = Field(description="When it happened.")
    state: DeliveryState
    reason: str | None = Field(
        description="Why it failed, or of one on its way: why the last attempt did, or why it waits (one that is held: behind which)."
    )
    attempts: int
    created_at: datetime
    next_attempt_at: datetime | None = Field(description="At the latest, where it waits for its endpoint or for an earlier event.")
    deadline: datetime = Field(description="Until when it is tried.")
    finished_at: datetime | None
    last_attempt: AttemptAnswer | None

    @classmethod
    def of(cls, delivery: Delivery, held: str | None = None) -> Self:
        """A delivery as it is shown; `held` says why, of one that is."""
        return cls(**_shown(delivery, held))


class DeliveryAnswer(DeliverySummary):
    """A delivery with its latest attempts, oldest first."""

    latest_attempts: list[AttemptAnswer]

    @classmethod
    def of(cls, delivery: Delivery, held: str | None = None) -> Self:
        """A delivery in full; `held` says why, of one that is."""
        return cls(**_shown(delivery, held), latest_attempts=[AttemptAnswer.of(attempt) for attempt in delivery.latest])


class DeliveriesAnswer(BaseModel):
    """One page of deliveries, those of the newest events first. The list goes on while `next_cursor` is not null."""

    deliveries: list[DeliverySummary]
    next_cursor: str | None


class RedeliverRequest(Strict):
    """Which of the failed deliveries: all of them, or those of events since a time."""

    since: Moment | None = None


class RedeliveredAnswer(BaseModel):
    """How many are sent again; while `more` have failed, ask again."""

    count: int
    more: bool


def _shown(delivery: Delivery, held: str | None) -> dict[str, Any]:
    names = ("message_id", "webhook_id", "job_id", "number", "namespace", "at", "state", "attempts", "created_at", "deadline")
    return {name: getattr(delivery, name) for name in names} | {
        "reason": held or delivery.reason or (SPARED if delivery.spared else None),
        "event": delivery.type,
        "next_attempt_at": delivery.next_at,
        "finished_at": delivery.finished_at,
        "last_attempt": AttemptAnswer.of(delivery.latest[-1]) if delivery.latest else None,
    }

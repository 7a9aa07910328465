"""Bodies of the webhooks group."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, WithJsonSchema

from shared.jobs.fields import Strict
from shared.webhooks.model import Webhook, WebhookEvent
from shared.webhooks.registration import MAX_SECRET, MIN_SECRET
from shared.webhooks.urls import MAX_URL
from workers.api import examples

MAX_EVENTS = 100
_SECRET = {"anyOf": [{"type": "string", "minLength": MIN_SECRET, "maxLength": MAX_SECRET}, {"type": "null"}], "writeOnly": True}


class WebhookRequest(Strict):
    """A new webhook."""

    model_config = examples.shown(examples.WEBHOOK)

    url: str = Field(
        description=f"https, at most {MAX_URL} characters, of a host with public addresses only. It is kept, shown and used in its normal "
        "form: scheme and host in lower case, the host in ASCII without a dot at its end, a default port left out."
    )
    events: list[WebhookEvent] = Field(
        min_length=1, max_length=MAX_EVENTS, description="What it is told of; the same one twice counts once."
    )
    namespace: str | None = Field(default=None, description="Whose jobs it is about; without one, those of all namespaces.")
    secret: Annotated[Any, WithJsonSchema(_SECRET)] = Field(
        default=None,
        repr=False,
        description="Signs the deliveries; `whsec_` and base64 for a secret of Standard Webhooks. It is kept in Secrets Manager, "
        "and never shown again.",
    )
    """Of any type here, since FastAPI would show a wrong one in its answer; its rule is `secret_rule`."""


class WebhookRecord(BaseModel):
    """A webhook. `created_by` and `signed` are additions; the secret is never shown."""

    id: str
    url: str
    events: list[WebhookEvent]
    namespace: str | None
    created_at: datetime
    created_by: str
    signed: bool

    @classmethod
    def of(cls, webhook: Webhook) -> Self:
        """A webhook as it is shown."""
        return cls(**webhook.model_dump())


class WebhookListAnswer(BaseModel):
    """One page of webhooks, newest first. The list goes on while `next_cursor` is not null."""

    timestamp: datetime
    count: int
    webhooks: list[WebhookRecord]
    next_cursor: str | None


class WebhookMessageAnswer(BaseModel):
    """One webhook, and what was done."""

    timestamp: datetime
    message: str
    webhook: WebhookRecord

"""The record of a webhook."""

from __future__ import annotations

from typing import Final, Literal, get_args

from pydantic import AwareDatetime

from shared.jobs.model import Record

WebhookEvent = Literal["job.cancelled", "job.completed", "job.failed", "job.interrupted", "job.queued", "job.started"]
EVENTS: Final[tuple[WebhookEvent, ...]] = get_args(WebhookEvent)
"""`job.completed`, `job.failed` and `job.started` are those of GCO; the others are ours."""


class Webhook(Record):
    """An endpoint that is told of events. Its secret, where it is `signed`, is in Secrets Manager under `secret_name`."""

    id: str
    url: str
    events: tuple[WebhookEvent, ...]
    namespace: str | None = None
    """Whose jobs it is about; None: those of all namespaces."""
    created_at: AwareDatetime
    created_by: str
    signed: bool = False
    rotated_at: AwareDatetime | None = None
    """When its secret was last replaced."""
    disabled_at: AwareDatetime | None = None
    """Since when nothing is sent to it: its events are kept as failed deliveries, which can be sent again."""
    disabled_reason: str | None = None

    @property
    def secret_name(self) -> str:
        """The name of its secret."""
        return secret_name(self.id)


def secret_name(webhook_id: str) -> str:
    """The name of a webhook's secret."""
    return f"webhooks/{webhook_id}"

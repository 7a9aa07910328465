"""The record of a webhook."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import AwareDatetime

from shared.jobs.model import Record

WebhookEvent = Literal["job.completed", "job.failed", "job.started"]
EVENTS: Final[tuple[WebhookEvent, ...]] = ("job.completed", "job.failed", "job.started")


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

    @property
    def secret_name(self) -> str:
        """The name of its secret."""
        return secret_name(self.id)


def secret_name(webhook_id: str) -> str:
    """The name of a webhook's secret."""
    return f"webhooks/{webhook_id}"

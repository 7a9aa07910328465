"""What deliveries need of the world: somebody who sends a message to an endpoint, and somebody who knows how the endpoint fares."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, Protocol

from shared.webhooks.model import Webhook, WebhookEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What an endpoint is sent. `id` and `body` are the same at every attempt, and for every endpoint that is told of the event.

    `id` is `<job id>#<number of the event>`: a receiver that has it already has the message already. `body` is JSON in UTF-8. `at` is the
    time of the event; the time of the attempt, which a signature covers, is the sender's to tell.
    """

    id: str
    event: WebhookEvent | Literal["webhook.test"]
    at: datetime
    cluster: str
    region: str
    body: bytes


class Failure(StrEnum):
    """Why there was no answer."""

    TIMEOUT = "timeout"  # none within the time that an attempt has
    CONNECTION = "connection"  # refused, reset, or ended before an answer
    TLS = "tls"  # no certificate that is valid for the host
    UNRESOLVED = "unresolved"  # the host has no address now
    ADDRESS = "address"  # the URL may not be sent to: the rules of `shared.webhooks.urls`
    PROTOCOL = "protocol"  # what came is no HTTP
    OURS = "ours"  # the fault is on our side, such as a secret that can't be read: says nothing about the endpoint


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What came of one attempt: a status, or a failure, never both.

    `text` is the beginning of the answer, or of what the failure says; never a secret. `latency` is in milliseconds. `retry_after` is the
    header as it came, unread.
    """

    status: int | None = None
    failure: Failure | None = None
    text: str = ""
    latency: int = 0
    retry_after: str | None = None


class Sender(Protocol):
    """Makes attempts."""

    async def send(self, webhook: Webhook, message: Message) -> Answer:
        """Send once, signed for this moment. Takes a bounded time, and raises nothing (but when it is cancelled)."""
        ...


class Health(Protocol):
    """How endpoints fare. What it keeps for more than a moment is in the table; none of its methods raises."""

    async def paused_until(self, webhook: Webhook, *, tried: bool) -> datetime | None:
        """Asked before each attempt of a delivery, one that was `tried` before or a new one: None lets it go; else it waits until then.

        Whichever new one is let through while an endpoint is on trial is that trial, and tells of it by `answered`.
        """
        ...

    async def spared_until(self, webhook: Webhook) -> datetime | None:
        """Until when an endpoint is being spared, as known some seconds ago at most; None where a new delivery may ask to be sent."""
        ...

    async def may_go(self, webhook: Webhook) -> bool:
        """Whether deliveries may go now that wait because the endpoint was being spared, and there may be any."""
        ...

    async def answered(self, webhook: Webhook, answer: Answer) -> bool:
        """Told after each attempt; whether deliveries `may_go`.

        One that can't go on is disabled here: at once after a 410, or at its limit.
        """
        ...

    async def drained(self, webhook: Webhook) -> None:
        """Told where none of those is found any more."""
        ...

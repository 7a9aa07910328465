"""Attempts to send a message to a receiver on this machine, whatever name its URL gives it."""

from __future__ import annotations

from datetime import UTC, datetime

from shared.clock import SystemClock
from shared.webhooks.http import Poster
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Message
from shared.webhooks.rotation import SigningSecrets
from shared.webhooks.sending import HttpSender
from shared.webhooks.urls import UrlRules
from tests.unit.webhooks.receivers import trusting

SECRET = "correct horse battery staple"
MESSAGE = Message(
    id="018f5b7e-0000-7000-8000-000000000000#7",
    event="job.completed",
    at=datetime(2026, 1, 2, tzinfo=UTC),
    cluster="gpufleet-eu",
    region="eu-west-1",
    body='{"event":"job.completed","name":"trainé"}'.encode(),
)


class Kept:
    """Secrets Manager with one secret."""

    def __init__(self, value=SECRET):
        self.value = value
        self.reads = 0

    async def get(self, name):
        self.reads += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def webhook(url, *, signed=False):
    return Webhook(id="w1", url=url, events=("job.completed",), created_at=datetime.now(UTC), created_by="ann", signed=signed)


def sender(*addresses, secrets=None, seconds=5.0, local=True, connect=2.0, **options):
    """A sender for which every name has these addresses."""
    return HttpSender(
        rules=UrlRules(local=local, resolve=lambda host, port: list(addresses) or ["127.0.0.1"], **options),
        secrets=SigningSecrets(secrets or Kept(), SystemClock()),
        clock=SystemClock(),
        poster=Poster(tls=trusting, connect_seconds=connect),
        seconds=seconds,
    )


async def send(url, *, signed=False, **options):
    return await sender(**options).send(webhook(url, signed=signed), MESSAGE)

"""One attempt: the URL is checked, the message signed, and sent to an address that was checked a moment ago."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import UnavailableError
from shared.webhooks.http import Poster
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Answer, Failure, Message
from shared.webhooks.rotation import SigningSecrets
from shared.webhooks.signing import headers
from shared.webhooks.urls import UrlRefusedError, UrlRules

SECONDS: Final = 10.0
"""What an attempt may take, from the lookup of the host to the last byte that is read."""
SECRET_SECONDS: Final = 5.0
"""What the reading of a secret may take, which is not the endpoint's time."""

log = structlog.get_logger()


class HttpSender:
    """The sender of this installation (`shared.webhooks.ports.Sender`). An attempt takes 15 seconds at most."""

    def __init__(
        self,
        *,
        rules: UrlRules,
        secrets: SigningSecrets,
        clock: Clock,
        poster: Poster | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._rules = rules
        self._secrets = secrets
        self._clock = clock
        self._poster = poster or Poster()
        self._seconds = seconds

    async def send(self, webhook: Webhook, message: Message) -> Answer:
        """Send once, signed for this moment. Raises nothing but what cancels it."""
        try:
            async with asyncio.timeout(SECRET_SECONDS):
                secrets = await self._secrets.of(webhook)
        except (UnavailableError, LookupError, TimeoutError) as error:
            log.warning("a webhook's secret can't be read", webhook=webhook.id, error=str(error) or type(error).__name__)
            return Answer(failure=Failure.OURS, text="its secret can't be read")
        begun = time.monotonic()
        try:
            return await self._attempt(webhook, message, headers(message, at=self._clock.now(), secrets=secrets), begun)
        except Exception as error:
            log.error("an attempt failed in a way that nobody expected", webhook=webhook.id, message_id=message.id, exc_info=error)
            return Answer(failure=Failure.OURS, text=f"{type(error).__name__} while sending", latency=_milliseconds(begun))

    async def _attempt(self, webhook: Webhook, message: Message, signed: dict[str, str], begun: float) -> Answer:
        try:
            async with asyncio.timeout(self._seconds):
                endpoint = await self._rules.check(webhook.url)
        except UrlRefusedError as refused:
            failure = Failure.UNRESOLVED if refused.unresolved else Failure.ADDRESS
            return Answer(failure=failure, text=refused.rule, latency=_milliseconds(begun))
        except TimeoutError:
            return Answer(failure=Failure.UNRESOLVED, text="its host could not be looked up in time", latency=_milliseconds(begun))
        return await self._poster.post(endpoint, signed, message.body, begun=begun, until=begun + self._seconds)


def _milliseconds(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)

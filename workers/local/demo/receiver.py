"""A receiver of webhooks as a user would write it: it checks every signature, by Standard Webhooks and by GCO's header."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

_LOOPBACK = "127.0.0.1"


@dataclass(kw_only=True)
class Receiver:
    """A server on the loopback interface while its block lasts. `messages` are those with right signatures, by their ids."""

    secret: str
    messages: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    requests: int = 0
    refused: list[str] = field(default_factory=list)
    """What was wrong with a request whose signature is not right."""
    port: int = 0
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/hook", self._take)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, _LOOPBACK, 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where it takes messages."""
        return f"http://{_LOOPBACK}:{self.port}/hook"

    async def _take(self, request: web.Request) -> web.Response:
        self.requests += 1
        body = await request.read()
        wrong = self._wrong(request.headers, body)
        if wrong is not None:
            self.refused.append(wrong)
            return web.Response(status=401)
        self.messages[request.headers["webhook-id"]] = json.loads(body)
        return web.Response(status=204)

    def _wrong(self, headers: Mapping[str, str], body: bytes) -> str | None:
        """What is wrong with the signatures of a request; None where they are right."""
        try:
            Webhook(self.secret).verify(body, {name.lower(): value for name, value in headers.items()})
        except (WebhookVerificationError, ValueError) as error:
            return f"Standard Webhooks: {error}"
        expected = "sha256=" + hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(headers.get("X-GCO-Signature", ""), expected):
            return "X-GCO-Signature is not that of the body"
        return None

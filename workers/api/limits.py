"""The largest body that is read: counted in bytes that really came, whatever Content-Length says.

Pure ASGI. The body is read here, up to the limit, and handed on whole; so nothing behind it can be made to hold more. What comes beyond is
read too, and thrown away: most clients look for an answer only when they have sent everything, and would see nothing but a connection that
breaks if it was closed while they send. Up to a bound, since nobody may keep a server reading for ever.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.api.requests import refusal

DISCARDED_BYTES: Final = 64 * 1024 * 1024
_MANY_DIGITS: Final = 20
"""A length that is beyond every bound; Python reads numbers of a few thousand digits only."""
READING_SECONDS: Final = 60.0
"""How long a body up to the limit may take."""
DISCARDING_SECONDS: Final = 10.0
"""How much is thrown away, and for how long, before a connection is closed on a client that still sends."""


class BodyLimit:
    """Answers 413 to a body of more than `limit` bytes, and 408 to one that doesn't come to its end in time."""

    def __init__(self, app: ASGIApp, *, limit: int, seconds: float = DISCARDING_SECONDS, reading: float = READING_SECONDS) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds
        self._reading = reading

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = _declared(scope)
        body = None
        if declared <= self._limit:
            try:
                async with asyncio.timeout(self._reading):
                    body = await self._read(receive)
            except TimeoutError:
                late = f"Request body did not come to its end within {self._reading:g} seconds"
                await refusal(scope, HTTPStatus.REQUEST_TIMEOUT, late, headers={"Connection": "close"})(scope, receive, send)
                return
        elif declared <= DISCARDED_BYTES and not _waits(scope):
            await self._discard(receive)
        if body is None:
            detail = f"Request body exceeds maximum size of {self._limit} bytes"
            answer = refusal(scope, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail, headers={"Connection": "close"})
            await answer(scope, receive, send)
        elif body[-1]["type"] == "http.request":  # a client that left in the middle of its body asks for nothing any more
            await self._app(scope, _replay(body, receive), send)

    async def _discard(self, receive: Receive) -> None:
        """Read on to the end of the body, within the bounds."""
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                while size <= DISCARDED_BYTES:
                    message = await receive()
                    size += len(message.get("body", b""))
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return

    async def _read(self, receive: Receive) -> list[Message] | None:
        """All messages of the body; None when they are too much."""
        messages: list[Message] = []
        size = 0
        while True:
            message = await receive()
            messages.append(message)
            if message["type"] != "http.request":
                return messages
            size += len(message.get("body", b""))
            if not message.get("more_body", False):
                return messages if size <= self._limit else None
            if size > self._limit:
                await self._discard(receive)
                return None


def _declared(scope: Scope) -> int:
    """The length that the headers declare; 0 where they declare none, or nonsense."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            digits = value.lstrip(b"0")
            return int(digits or b"0") if len(digits) < _MANY_DIGITS else DISCARDED_BYTES + 1
    return 0


def _waits(scope: Scope) -> bool:
    """Whether the client sends its body only when it is told to (`Expect: 100-continue`, as curl does)."""
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"])


def _replay(messages: list[Message], receive: Receive) -> Receive:
    waiting: list[Any] = list(reversed(messages))

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay

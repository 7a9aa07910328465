"""The largest body that is read: counted in bytes that really came, whatever Content-Length says.

Pure ASGI. The body is read here, up to the limit and no further, and handed on whole; so nothing behind it can be made to hold more.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """Answers 413 to a body of more than `limit` bytes."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = None if _declared(scope) > self._limit else await self._read(receive)
        if body is None:
            detail = f"Request body exceeds maximum size of {self._limit} bytes"
            answer = JSONResponse({"detail": detail}, status_code=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, headers={"Connection": "close"})
            await answer(scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)

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
            if size > self._limit:
                return None
            if not message.get("more_body", False):
                return messages


def _declared(scope: Scope) -> int:
    """The length that the headers declare; 0 where they declare none, or nonsense."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and len(value) < 20:
            return int(value)
    return 0


def _replay(messages: list[Message], receive: Receive) -> Receive:
    waiting: list[Any] = list(reversed(messages))

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay

"""Every request has an id, made here and told in `X-Request-ID` and in every error's body, and leaves one log line.

An id that a client sends is ignored: whoever reads logs must be able to rely on ours being unique. What nobody expected ends here as a 500.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Protocol

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import cut

log = structlog.get_logger()

HEADER: Final = "X-Request-ID"
CLIENT_CLOSED: Final = 499
"""What the log says of a client that left before its answer began; the number is nginx's."""
_LOGGED: Final = 1024
"""Characters of a path in the log."""
_SLOW_SECONDS: Final = 1.0
"""Clients give up on answers that take long; of others nobody asks whether they are still there."""


def request_id(scope: Scope) -> str:
    """The id of a request: 32 hexadecimal digits."""
    found: str = scope.setdefault("state", {}).setdefault("request_id", secrets.token_hex(16))
    return found


def refusal(scope: Scope, status: int, detail: Any, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """An error as every part of the API answers it: `detail` is a text, or the list of all problems."""
    return JSONResponse({"detail": detail, "request_id": request_id(scope)}, status_code=status, headers=headers)


def tell_header(scope: Scope, name: str, value: str) -> None:
    """Have the answer carry one more header, whoever makes it."""
    scope.setdefault("state", {}).setdefault("headers", []).append((name.lower().encode(), value.encode()))


class Note(Protocol):
    """Counts requests (`workers.api.figures`)."""

    def __call__(self, *, method: str, route: str | None, status: int, seconds: float) -> None:
        """A request has been answered; `route` is that of the API, with its parameters' names."""
        ...


class Requests:
    """Pure ASGI, the outermost of the app's own middleware."""

    def __init__(self, app: ASGIApp, *, note: Note | None = None) -> None:
        self._app = app
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and tell of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        own_id = request_id(scope)
        tell_header(scope, HEADER, own_id)
        seen = _Seen()

        async def send_and_watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                if not seen.left and seen.seconds > _SLOW_SECONDS:
                    seen.left = await _has_left(receive)
                seen.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *scope["state"]["headers"]]}
            elif message["type"] == "http.response.body":
                seen.answered = not message.get("more_body", False)
            await send(message)

        async def receive_and_watch() -> Message:
            message = await receive()
            seen.left = seen.left or (message["type"] == "http.disconnect" and not seen.answered)
            return message

        with structlog.contextvars.bound_contextvars(request_id=own_id):
            try:
                await self._app(scope, receive_and_watch, send_and_watch)
            except Exception as error:
                if not (seen.left and isinstance(error, ClientDisconnect | OSError)):
                    log.exception("request failed", method=scope["method"], path=cut(scope["path"], _LOGGED))
                    if seen.status:
                        raise
                    detail = f"Internal server error (request-id: {own_id})"
                    await refusal(scope, HTTPStatus.INTERNAL_SERVER_ERROR, detail)(scope, receive, send_and_watch)
            finally:
                _tell(scope, seen, self._note)


async def _has_left(receive: Receive) -> bool:
    """Whether the client is known to have left; its request has been read, so nothing else can come from it."""
    waiting = asyncio.ensure_future(receive())
    await asyncio.sleep(0)
    if waiting.done():
        return bool(waiting.result()["type"] == "http.disconnect")
    waiting.cancel()
    return False


class _Seen:
    """What was seen of one request, until it was answered or its client left."""

    __slots__ = ("answered", "begun", "left", "status")

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.status = 0
        self.answered = False
        self.left = False

    @property
    def seconds(self) -> float:
        """Since it came."""
        return time.perf_counter() - self.begun


def _tell(scope: Scope, seen: _Seen, note: Note | None) -> None:
    caller = scope["state"].get("caller")
    # An included route stands under its prefix in FastAPI's own context; `route` is what its router was given.
    route = getattr(scope.get("fastapi", {}).get("effective_route_context") or scope.get("route"), "path_format", None)
    status, seconds = int(seen.status) or (CLIENT_CLOSED if seen.left else 0), seen.seconds
    log.info(
        "client left" if seen.left else "request",
        method=scope["method"],
        path=cut(scope["path"], _LOGGED),
        route=route,
        caller=caller.name if caller is not None else None,
        client=scope["client"][0] if scope.get("client") else None,
        status=status,
        milliseconds=round(seconds * 1000, 1),
    )
    if note is not None:
        note(method=scope["method"], route=route, status=status, seconds=seconds)

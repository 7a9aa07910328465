"""Who is calling: asked once for each request, before its body is read."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from shared.identity.callers import LOCAL


class Identity:
    """Pure ASGI: puts the caller into the request's state."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of a known caller."""
        if scope["type"] == "http":
            scope.setdefault("state", {})["caller"] = LOCAL
        await self._app(scope, receive, send)

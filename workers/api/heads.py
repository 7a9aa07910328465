"""HEAD as GET without its body, for every route (RFC 9110, section 9.3.2): load balancers and `curl -I` ask so."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Heads:
    """Pure ASGI. What would be sent after the head is never made: a log that is followed ends where its first line begins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        answered = asyncio.Event()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                answered.set()

        serving = asyncio.ensure_future(self._app({**scope, "method": "GET"}, receive, send_head))
        waiting = asyncio.ensure_future(answered.wait())
        try:
            await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            waiting.cancel()
            serving.cancel()
            await asyncio.gather(serving, waiting, return_exceptions=True)

"""Every request has an id, made here and told in `X-Request-ID`, and leaves one log line. What nobody expected ends here as a 500.

An id that a client sends is ignored: whoever reads logs must be able to rely on ours being unique.
"""

from __future__ import annotations

import secrets
import time

import structlog
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger()

HEADER = "X-Request-ID"


class Requests:
    """Pure ASGI, the outermost of the app's own middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and tell of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = secrets.token_hex(16)
        status = 0
        begun = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), (HEADER.lower().encode(), request_id.encode())]}
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_with_id)
            except Exception:
                log.exception("request failed", method=scope["method"], path=scope["path"])
                if status:
                    raise
                answer = JSONResponse({"detail": f"Internal server error (request-id: {request_id})"}, status_code=500)
                await answer(scope, receive, send_with_id)
            finally:
                elapsed = round((time.perf_counter() - begun) * 1000, 1)
                log.info("request", method=scope["method"], path=scope["path"], status=int(status), milliseconds=elapsed)

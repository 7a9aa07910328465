"""A small OpenCost over HTTP, which answers what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Served:
    """What it answers: `sets` to allocations, raw `body` instead of it, `status`, `healthy`. What it was asked is in `asked`."""

    url: str = ""
    sets: list[Any] = field(default_factory=list)
    body: bytes | None = None
    status: int = 200
    healthy: bool = True
    asked: list[dict[str, str]] = field(default_factory=list)


@asynccontextmanager
async def opencost_server() -> AsyncIterator[Served]:
    """A server on a free port of this machine."""
    served = Served()

    async def compute(request: web.Request) -> web.Response:
        served.asked.append(dict(request.query))
        if served.body is not None:
            return web.Response(body=served.body, status=served.status, content_type="application/json")
        return web.json_response({"code": 200, "data": served.sets}, status=served.status)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(status=200 if served.healthy else 503)

    app = web.Application()
    app.router.add_get("/allocation/compute", compute)
    app.router.add_get("/healthz", healthz)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield served
    finally:
        await runner.cleanup()

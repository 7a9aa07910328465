"""An app behind a real server, for answers that go on, and a reader of server-sent events that can leave and come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from httpx_sse import aconnect_sse

from workers.api import server
from workers.api.app import create_app
from workers.api.core import Core
from workers.api.following import FLOWING, Following, Stretch
from workers.local.ports import free_ports


@dataclass
class Served:
    """A server that stands; `stop` asks it to end and waits until it has."""

    url: str
    following: Following
    task: asyncio.Task[None]

    async def stop(self) -> None:
        self.following.stopping.set()
        await self.task


@asynccontextmanager
async def served(core: Core, *, limit: int = 200, stretch: Stretch = FLOWING) -> AsyncIterator[Served]:
    """An app over this core on a port of its own."""
    stopping = asyncio.Event()
    following = Following(stopping=stopping, limit=limit, stretch=stretch)
    (port,) = free_ports(1)
    app = create_app(replace(core, following=following))
    where = server.ServerSettings(host="127.0.0.1", port=port)
    task = asyncio.create_task(server._run(app, where, stopping, grace=20))
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url) as client, asyncio.timeout(10):
        while True:
            try:
                await client.get("/healthz")
                break
            except httpx.TransportError:
                await asyncio.sleep(0.02)
    found = Served(url, following, task)
    try:
        yield found
    finally:
        await found.stop()


@dataclass
class Reader:
    """What a client has read: the lines, the other events, and the id of the last line."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    others: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    last_id: str | None = None
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        return [line["line"] for line in self.lines]

    @property
    def end(self) -> dict[str, Any] | None:
        return next((data for kind, data in self.others if kind == "end"), None)

    async def read(self, url: str, path: str, *, until: int | None = None, **params: Any) -> Reader:
        """Read until the stream ends, or so many lines have been read altogether."""
        headers = self.headers | ({"Last-Event-ID": self.last_id} if self.last_id else {})
        async with (
            httpx.AsyncClient(base_url=url, timeout=30) as client,
            aconnect_sse(client, "GET", path, params={"follow": "true", **params}, headers=headers) as source,
        ):
            self.status = source.response.status_code
            async for event in source.aiter_sse():
                if not event.data:
                    continue
                if event.event != "message":
                    self.others.append((event.event, json.loads(event.data)))
                    continue
                self.lines.append(json.loads(event.data))
                self.last_id = event.id
                if until is not None and len(self.lines) >= until:
                    break
        return self

"""A cluster that says yes at once: enough of an API server for a dispatcher to create and release Jobs, and nothing behind it.

For measurements of what happens between workers and the table, where a simulated cluster would take most of the time.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


class StubCluster:
    """Answers creates with the object and a UID, everything else with an empty object; `released` counts patches.

    With `hold`, no create is answered until so many of them wait; `waiting` is the most that did.
    """

    def __init__(self, *, hold: int = 0) -> None:
        self.created = 0
        self.waiting = 0
        self._hold = hold
        self._all_wait = asyncio.Event()
        self.released = 0
        self.url = ""
        self._target: tuple[int, asyncio.Event] | None = None

    async def until_released(self, count: int) -> None:
        """Wait until so many Jobs have been released in all."""
        done = asyncio.Event()
        self._target = (count, done)
        if self.released < count:
            await done.wait()

    async def _wait_for_all(self) -> None:
        if self._all_wait.is_set():
            return
        self.waiting += 1
        if self.waiting >= self._hold:
            self._all_wait.set()
        await self._all_wait.wait()

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """Answer one request."""
        body = await request.read()
        if request.method == "POST":
            self.created += 1
            await self._wait_for_all()
            made: dict[str, Any] = json.loads(body)
            made["metadata"] |= {"uid": str(uuid.uuid4()), "resourceVersion": "1"}
            return web.json_response(made, status=201)
        if request.method == "PATCH":
            self.released += 1
            if self._target is not None and self.released >= self._target[0]:
                self._target[1].set()
        return web.json_response({})


@asynccontextmanager
async def stub_cluster(*, hold: int = 0) -> AsyncIterator[StubCluster]:
    """A stub on a free port, until the block ends."""
    cluster = StubCluster(hold=hold)
    runner = web.ServerRunner(web.Server(cluster.handle, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        cluster.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield cluster
    finally:
        await runner.cleanup()

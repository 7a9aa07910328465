"""A transport to a cluster that tells when requests of a kind have been answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from shared.clusters.api import KubernetesApi
from shared.clusters.transport import Answer, Transport


class Noticing:
    """Passes everything on, and counts answers by method."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._waiting: dict[str, tuple[int, asyncio.Future[None]]] = {}

    @classmethod
    def on(cls, api: KubernetesApi) -> Noticing:
        """Put it between an API and its transport."""
        found = cls(api._transport)
        api._transport = found
        return found

    def after(self, method: str, count: int) -> asyncio.Future[None]:
        """Done when so many more requests of a method have been answered well."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[method] = (count, future)
        return future

    async def send(self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> Answer:
        """Send a request."""
        answer = await self._transport.send(method, path, query=query, headers=headers, body=body)
        waiting = self._waiting.get(method)
        if waiting is not None and answer.status < 300:
            left, future = waiting[0] - 1, waiting[1]
            self._waiting[method] = (left, future)
            if not left:
                del self._waiting[method]
                future.set_result(None)
        return answer

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

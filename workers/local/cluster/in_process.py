"""The fleet's own Kubernetes client on a simulated cluster, with no socket between them: the transport of the deterministic simulation.

It stands where `shared.clusters.client.RestTransport` stands in production, below everything that the fleet does with a cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import unquote

from workers.local.cluster.answers import Response, Stream
from workers.local.cluster.cluster import SimulatedCluster
from workers.local.cluster.faults import Faults, answer_with
from workers.local.cluster.objects import to_json


class InProcessTransport:
    """Sends requests to a cluster in this process; a `Driver`, or whoever owns the loop, moves the cluster's time."""

    def __init__(self, cluster: SimulatedCluster, *, faults: Faults | None = None) -> None:
        self._cluster = cluster
        self.faults = faults or Faults()

    async def send(self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> InProcessAnswer:
        """Send a request. Raises ConnectionError where a fault breaks the connection."""
        path = unquote(path)
        content = None if body is None else body if isinstance(body, bytes) else to_json(body)
        fault = self.faults.take(method, path, query)
        if fault is not None and fault.delay:
            await asyncio.sleep(fault.delay)
        answer = answer_with(fault, self._cluster, method, path, query, headers, content)
        if answer is None:
            raise ConnectionResetError("the connection was lost")
        return InProcessAnswer(answer)

    async def close(self) -> None:
        """Nothing is held."""


class InProcessAnswer:
    """An answer of a cluster in this process."""

    def __init__(self, answer: Response | Stream) -> None:
        self._answer = answer

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        return self._answer.headers

    async def read(self) -> bytes:
        """The whole body; of a stream, when it has ended."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        if isinstance(self._answer, Response):
            yield self._answer.body
            return
        async for lines in follow(self._answer):
            yield lines
        if self._answer.broken:
            raise ConnectionResetError("the connection was lost")

    def close(self) -> None:
        """Let go of a stream."""
        if isinstance(self._answer, Stream):
            self._answer.close()


async def follow(stream: Stream) -> AsyncIterator[bytes]:
    """What a stream gives, as it comes, until it ends; closes it when the reader leaves."""
    more = asyncio.Event()
    stream.subscribe(more.set)
    try:
        while True:
            lines = stream.take()
            if lines:
                yield b"".join(lines)
            elif stream.closed:
                return
            else:
                more.clear()
                await more.wait()
    finally:
        stream.close()

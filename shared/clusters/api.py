"""Requests to the API server of one cluster, with plain JSON documents and with errors of ours.

The library's generated models are left aside: they are slow, and they lose the fields that they don't know.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from shared.clock import Clock, SystemClock
from shared.clusters.errors import failure
from shared.clusters.transport import Answer, Transport
from shared.errors import UnavailableError

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
"""Server-side apply. Its body is YAML, of which JSON is a part."""

REQUEST_SECONDS: Final = 10.0
"""How long a request may take. An admission webhook may take this long by default, all else is answered in a fraction of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What an API server says to a request that succeeds: the HTTP status tells a creation (201) from a change (200)."""

    status: int
    document: dict[str, Any]


class KubernetesApi:
    """One API server. Every method raises UnavailableError where there is no usable answer, and the errors of `clusters.errors`."""

    def __init__(self, transport: Transport, *, timeout: float = REQUEST_SECONDS, clock: Clock | None = None) -> None:
        self._transport = transport
        self._timeout = timeout
        self._clock = clock or SystemClock()

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """One request with a JSON document as its answer."""
        return (await self.ask(method, path, query=query, body=body, content_type=content_type, timeout=timeout)).document

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout: float | None = None,
    ) -> Reply:
        """One request, whose answer's status matters too."""
        what = f"{method} {path}"
        async with _answering(what, timeout or self._timeout):
            answer = await self._send(method, path, query, body, content_type)
            try:
                data = await answer.read()
            finally:
                answer.close()
        self._check(what, answer, data)
        try:
            document = json.loads(data)
        except ValueError as error:
            raise UnavailableError(f"{what}: the answer is no JSON") from error
        if not isinstance(document, dict):
            raise UnavailableError(f"{what}: the answer is no JSON object")
        return Reply(status=answer.status, document=document)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float | None = None, timeout: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A body as it comes: a watch or a log. `timeout` is for its beginning; after `silence` seconds without a byte it counts as broken.

        The connection is closed at the end of the `async with`, whether or not the body has been read.
        """
        what = f"GET {path}"
        async with _answering(what, timeout or self._timeout):
            answer = await self._send("GET", path, query, None, JSON)
            if answer.status >= 300:
                try:
                    data = await answer.read()
                finally:
                    answer.close()
        if answer.status >= 300:
            self._check(what, answer, data)
        try:
            async with aclosing(_chunks(what, answer, silence)) as chunks:
                yield chunks
        finally:
            answer.close()

    async def _send(self, method: str, path: str, query: Mapping[str, str] | None, body: Any, content_type: str) -> Answer:
        # A log is text, but an API server that is asked for text alone answers its errors as text too.
        headers = {"Accept": "application/json, */*"}
        if body is not None:
            headers["Content-Type"] = content_type
        return await self._transport.send(method, path, query=query or {}, headers=headers, body=body)

    def _check(self, what: str, answer: Answer, data: bytes) -> None:
        if answer.status >= 300:
            raise failure(what, answer.status, answer.headers, data, now=self._clock.now())


@asynccontextmanager
async def _answering(what: str, seconds: float | None) -> AsyncIterator[None]:
    """Turn what goes wrong on the way into UnavailableError."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise UnavailableError(f"{what}: no answer within {seconds} s") from error
    except OSError as error:
        raise UnavailableError(f"{what}: {error or type(error).__name__}") from error


async def _chunks(what: str, answer: Answer, silence: float | None) -> AsyncGenerator[bytes, None]:
    chunks = answer.chunks()
    while True:
        async with _answering(what, silence):
            chunk = await anext(chunks, None)
        if chunk is None:
            return
        yield chunk

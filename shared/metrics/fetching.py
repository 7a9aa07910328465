"""Reading what an exporter serves, bounded in bytes and in time: through the API server, or from the pod itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final, Protocol

import httpx

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import ApiError
from shared.clusters.kinds import POD
from shared.errors import UnavailableError
from shared.metrics.exporters import PATH, Exporter

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one answer. Of a node of 8 GPUs it has some 60 KB, of 56 partitions with every field that DCGM counts 2 MB."""
SECONDS: Final = 10.0
"""Of one answer, from the question to its end; Prometheus' own default."""


class ScrapeError(UnavailableError):
    """An exporter that could not be read; the message says why."""


class Fetch(Protocol):
    """Reads one exporter."""

    async def __call__(self, exporter: Exporter, *, seconds: float) -> str:
        """The text that it serves, within so many seconds. Raises ScrapeError."""
        ...


class ProxyFetch:
    """Through the pod proxy of the API server, which reaches pods from anywhere and asks for the right `get` on `pods/proxy`."""

    def __init__(self, api: KubernetesApi, *, most_bytes: int = MOST_BYTES) -> None:
        self._api = api
        self._most_bytes = most_bytes

    async def __call__(self, exporter: Exporter, *, seconds: float) -> str:
        """The text that the exporter serves."""
        path = f"{POD.path(exporter.namespace, exporter.pod)}:{exporter.port}/proxy{PATH}"
        try:
            async with asyncio.timeout(seconds), self._api.stream(path, query={}, timeout=seconds) as chunks:
                return await bounded(chunks, self._most_bytes)
        except TimeoutError:
            raise ScrapeError(f"no whole answer within {seconds:.0f} s") from None
        except ScrapeError:
            raise
        except (ApiError, UnavailableError) as error:
            raise ScrapeError(str(error)) from error


class DirectFetch:
    """From the pod's own address, without a redirect and without a proxy of the environment."""

    def __init__(self, client: httpx.AsyncClient, *, most_bytes: int = MOST_BYTES) -> None:
        self._client = client
        self._most_bytes = most_bytes

    async def __call__(self, exporter: Exporter, *, seconds: float) -> str:
        """The text that the exporter serves."""
        if exporter.address is None:
            raise ScrapeError("the pod has no address")
        host = f"[{exporter.address}]" if ":" in exporter.address else exporter.address
        url = f"http://{host}:{exporter.port}{PATH}"
        try:
            async with asyncio.timeout(seconds), self._client.stream("GET", url) as answer:
                if answer.status_code != httpx.codes.OK:
                    raise ScrapeError(f"GET {url}: {answer.status_code}")
                return await bounded(answer.aiter_bytes(), self._most_bytes)
        except TimeoutError:
            raise ScrapeError(f"no whole answer within {seconds:.0f} s") from None
        except httpx.HTTPError as error:
            raise ScrapeError(f"GET {url}: {error or type(error).__name__}") from error


def direct_client(connections: int) -> httpx.AsyncClient:
    """The client of `DirectFetch`; whoever makes it closes it. Time limits are the caller's."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(timeout=None, trust_env=False, follow_redirects=False, limits=limits)  # noqa: S113 # see above


async def bounded(chunks: AsyncIterator[bytes], most: int) -> str:
    """The text of a body; what isn't UTF-8 in it is replaced, and only its own line suffers. Raises ScrapeError beyond so many bytes."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise ScrapeError(f"the answer is larger than {most} bytes")
        parts.append(chunk)
    return b"".join(parts).decode(errors="replace")

"""One page of a list of an API server, read as it comes: no more of it is in memory than the piece at hand and one object.

A page of 5,000 Jobs is tens of megabytes, which would be hundreds as dictionaries, and read in one go it would hold the event loop for
a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import ijson

from shared.clusters.api import KubernetesApi
from shared.errors import UnavailableError

PIECE: Final = 32 * 1024
"""Bytes that are parsed before the event loop has its turn: about a millisecond."""
BEGIN_SECONDS: Final = 30.0
"""Until the answer begins; an API server reads the whole page from etcd before."""
SILENCE_SECONDS: Final = 15.0


async def read_page(api: KubernetesApi, path: str, query: Mapping[str, str], take: Callable[[dict[str, Any]], None]) -> Mapping[str, Any]:
    """Give every object of a page to `take`, in their order, and return the page's metadata (`continue`, `remainingItemCount`).

    Raises UnavailableError, also for an answer that broke off after objects of it were taken, and ApiError, of these ExpiredError for a
    continue token that is too old.
    """
    page = _Page(take)
    async with api.stream(path, query=query, timeout=BEGIN_SECONDS, silence=SILENCE_SECONDS) as chunks:
        try:
            async for chunk in chunks:
                for start in range(0, len(chunk), PIECE):
                    page.feed(chunk[start : start + PIECE])
                    await asyncio.sleep(0)
            return page.end()
        except ijson.JSONError as error:
            raise UnavailableError(f"GET {path}: the answer is no whole JSON: {error}") from error


class _Page:
    """Takes a list apart. Its metadata need a parser of their own, but stand before the items in all that Kubernetes writes."""

    def __init__(self, take: Callable[[dict[str, Any]], None]) -> None:
        self._take = take
        self._items: list[dict[str, Any]] = ijson.sendable_list()
        self._metadata: list[dict[str, Any]] = ijson.sendable_list()
        self._items_parser = ijson.items_coro(self._items, "items.item", use_float=True)
        self._metadata_parser = ijson.items_coro(self._metadata, "metadata", use_float=True)

    def feed(self, piece: bytes) -> None:
        """Parse a piece of the body."""
        if not self._metadata:
            self._metadata_parser.send(piece)
        self._items_parser.send(piece)
        for item in self._items:
            self._take(item)
        del self._items[:]

    def end(self) -> Mapping[str, Any]:
        """The body has ended."""
        self._items_parser.close()
        if not self._metadata or not isinstance(self._metadata[0], dict):
            raise UnavailableError("an answer that is no list")
        return self._metadata[0]

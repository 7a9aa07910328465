"""Following a kind of objects on a cluster without missing any: list, watch from the list's version, and list again where history ends.

A watch can end in more ways than it says: an expired version is told as HTTP 410 or as an event inside a 200, a proxy may answer 200 with
nothing at all, a connection may die in silence. Each of them leads to one of two things here: go on from the last version that was heard
of, or list again. What was deleted in between isn't on the new list, by which a consumer knows it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import structlog

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import ApiError, ExpiredError, status_failure
from shared.clusters.kinds import Kind
from shared.clusters.listing import PAGE
from shared.errors import UnavailableError

log = structlog.get_logger()
T = TypeVar("T")

WATCH_SECONDS: Final = 290
"""After this the server ends a watch, below the five minutes after which load balancers tend to."""
SILENCE_SECONDS: Final = 90.0
"""An API server sends a bookmark about every minute; a connection that was silent for longer is taken for dead."""
LONGEST_LINE: Final = 16 * 1024 * 1024
"""Bytes of one event. etcd holds objects of 1.5 MiB, of which JSON makes a few more."""
FAILURES_BEFORE_LIST: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed(Generic[T]):
    """All objects that there are. What was known and isn't among them has been deleted."""

    objects: list[T]


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed(Generic[T]):
    """An object is new or has changed."""

    object: T


@dataclass(frozen=True, kw_only=True, slots=True)
class Deleted(Generic[T]):
    """An object is gone, or no longer carries the label by which it was watched; as it was at last."""

    object: T


Item: TypeAlias = Listed[T] | Changed[T] | Deleted[T]


class Backoff:
    """Pauses that double from `first` to `longest` seconds, until something goes well."""

    def __init__(self, first: float = 0.25, longest: float = 30.0) -> None:
        self._first = first
        self._longest = longest
        self._next = first
        self.count = 0

    def next(self) -> float:
        """The next pause."""
        pause, self._next = self._next, min(self._next * 2, self._longest)
        self.count += 1
        return pause

    def reset(self) -> None:
        """Something went well."""
        self._next = self._first
        self.count = 0


class Feed(Generic[T]):
    """One kind of objects of one cluster, as an endless async iterator of `Item`. Failures of the cluster don't end it.

    All namespaces, unless one is named; `selector` and `fields` are label and field selectors. `read` makes of an object what is to be
    kept of it, so that a list of many holds no more than that; None leaves the object out. Items are made as the consumer asks for them:
    one that is slow slows the connection, and nothing piles up here.
    """

    def __init__(
        self,
        api: KubernetesApi,
        kind: Kind,
        read: Callable[[dict[str, Any]], T | None],
        *,
        namespace: str | None = None,
        selector: str = "",
        fields: str = "",
        page: int = PAGE,
        watch_seconds: int = WATCH_SECONDS,
        silence: float = SILENCE_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._kind = kind
        self._path = kind.path(namespace)
        self._read = read
        self._selector = ({"labelSelector": selector} if selector else {}) | ({"fieldSelector": fields} if fields else {})
        self._page = page
        self._watch_seconds = watch_seconds
        self._silence = silence
        self._sleep = sleep
        self._backoff = Backoff()
        self._version: str | None = None

    async def __aiter__(self) -> AsyncIterator[Item[T]]:
        """Begins with a list."""
        self._version = None
        while True:
            if self._version is None:
                objects = await self._list()
                if objects is None:
                    continue
                yield Listed(objects=objects)
            async with aclosing(self._watch()) as items:
                async for item in items:
                    yield item

    async def _list(self) -> list[T] | None:
        """All objects, page by page and all of one moment; None where that failed, after a pause."""
        query = {**self._selector, "limit": str(self._page)}
        objects: list[T] = []
        try:
            while True:
                page = await self._api.request("GET", self._path, query=query, timeout=30.0)
                for document in page.get("items") or ():
                    self._add(objects, document)
                metadata: Mapping[str, str] = page["metadata"]
                if not metadata.get("continue"):
                    self._version = metadata["resourceVersion"]
                    return objects
                query["continue"] = metadata["continue"]
        except (UnavailableError, ApiError, KeyError) as error:
            await self._pause("list failed", error)
            return None

    def _add(self, objects: list[T], document: dict[str, Any]) -> None:
        found = self._read(document)
        if found is not None:
            objects.append(found)

    async def _watch(self) -> AsyncGenerator[Changed[T] | Deleted[T], None]:
        """One watch, from the last version until it ends; then `_version` says from where to go on, or None to list again."""
        query = {
            **self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version or "",
            "timeoutSeconds": str(self._watch_seconds),
        }
        began = asyncio.get_running_loop().time()
        heard = False
        try:
            async with self._api.stream(self._path, query=query, silence=self._silence) as chunks:
                async for line in lines(chunks):
                    item = self._event(line)
                    heard = True
                    self._backoff.reset()
                    if item is not None:
                        yield item
        except ExpiredError as error:
            self._version = None
            if not heard:
                await self._pause("history ended at once", error)
        except UnavailableError as error:
            await self._pause("watch broke", error)
            if self._backoff.count >= FAILURES_BEFORE_LIST:
                self._version = None
        except ApiError as error:
            self._version = None
            await self._pause("watch refused", error)
        else:
            if not heard and asyncio.get_running_loop().time() - began < self._watch_seconds / 2:
                # A server that has nothing to say says so for all the time it was asked for.
                self._version = None
                await self._pause("watch ended early and empty", None)

    def _event(self, line: bytes) -> Changed[T] | Deleted[T] | None:
        """What one line of a watch tells; None for a bookmark and for what `read` leaves out. Raises what an ERROR event stands for."""
        try:
            event = json.loads(line)
            kind, document = event["type"], event["object"]
            if kind == "ERROR":
                raise status_failure(f"watch of {self._kind.plural}", document)
            self._version = document["metadata"]["resourceVersion"]
        except (ValueError, KeyError, TypeError) as error:
            raise UnavailableError(f"watch of {self._kind.plural}: a line that is no event") from error
        found = self._read(document) if kind != "BOOKMARK" else None
        if found is None:
            return None
        return Deleted(object=found) if kind == "DELETED" else Changed(object=found)

    async def _pause(self, event: str, error: Exception | None) -> None:
        asked = error.retry_after if isinstance(error, UnavailableError) else None
        pause = max(self._backoff.next(), asked or 0.0)
        log.warning(event, kind=self._kind.plural, error=str(error) if error else None, pause=pause)
        await self._sleep(pause)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The whole lines of a stream, without their ends; a last one without an end was cut off and is left out."""
    held: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            held.append(line)
            yield b"".join(held)
            held, size = [], 0
        held.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            raise UnavailableError(f"a line of more than {LONGEST_LINE} bytes")

"""What was there in a window, read from what the observers of a region wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final, Protocol, TypeVar

import structlog

from shared.clock import Clock
from shared.costs.merging import merge_nodes, merge_pods
from shared.costs.model import NodeUsage, PodUsage, Window
from shared.costs.usage import Usage
from shared.costs.usage_documents import HOUR, UsageDocument, day_prefix, decode, hour_in, hour_of, hour_prefix

log = structlog.get_logger()

RESTART: Final = timedelta(minutes=2)
"""A time without an observer that is no gap: what ends in it is still on the cluster when the next one lists it, since a Job that has ended
stays for an hour at least (`rendering.MIN_TTL_SECONDS`)."""
AHEAD: Final = timedelta(days=31)
"""So far after a window it is looked for an observer that came after a gap, and knows what outlived it: as far as reports are made anew
(`Settings.costs_look_back_days`). A region may have been without one for days, while its nodes went on to cost."""

CONCURRENCY: Final = 16
"""Hours that are read at once."""

T = TypeVar("T", NodeUsage, PodUsage)


class _Listed(Protocol):
    @property
    def key(self) -> str: ...


class Objects(Protocol):
    """The bucket, as far as it is read here."""

    async def get(self, key: str, *, bucket: str | None = None, limit: int | None = None) -> bytes | None:
        """An object; None where there is none. Raises UnavailableError."""
        ...

    async def listed(self, prefix: str, *, limit: int | None = None) -> Sequence[_Listed]:
        """The objects whose keys begin so. Raises UnavailableError."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageReader:
    """Implements `UsageSource` over the bucket.

    Requests: one list for each hour of a window, one for each day after it until somebody has told of a later time, one read an object.

    An object that can't be understood counts as if it were not there, and is logged; its time is a gap then.
    """

    objects: Objects
    clock: Clock

    async def usage(self, region: str, window: Window) -> Usage:
        """As `UsageSource`. Raises UnavailableError."""
        documents = await self._documents(region, window)
        covered = _united(span for document in documents for span in document.covered)
        gaps = _gaps(window, covered)
        nodes = merge_nodes(one for document in documents for one in document.nodes)
        pods = merge_pods(one for document in documents for one in document.pods)
        seen = _last_seen(documents)
        return Usage(
            window=window,
            nodes=list(_within(nodes, window, seen)),
            pods=list(_within(pods, window, seen)),
            complete_to=gaps[0].start if gaps else window.end,
            gaps=gaps,
            final=any(span.end >= window.end for span in covered),
            all_pods=bool(documents) and all(document.all_pods for document in documents),
        )

    async def _documents(self, region: str, window: Window) -> list[UsageDocument]:
        """All of a window's hours, and of those after it until one tells of a time after the window."""
        hours = list(_hours(window.start, window.end))
        room = asyncio.Semaphore(CONCURRENCY)

        async def read(hour: datetime) -> list[UsageDocument]:
            async with room:
                return await self._of_hour(region, hour)

        found = [document for those in await asyncio.gather(*map(read, hours)) for document in those]
        async for keys in self._following(region, hours[-1] + HOUR, min(window.end + AHEAD, self.clock.now())):
            if any(span.end > window.end for document in found for span in document.covered):
                break
            found += await self._read(keys)
        return found

    async def _following(self, region: str, start: datetime, end: datetime) -> AsyncIterator[list[str]]:
        """The keys of each hour of a time of which there are any."""
        for number in range((end.date() - start.date()).days + 1):
            listed = [one.key for one in await self.objects.listed(day_prefix(region, start + timedelta(days=number)))]
            for hour, keys in groupby(listed, hour_in):
                if start <= hour < end:
                    yield list(keys)

    async def _of_hour(self, region: str, hour: datetime) -> list[UsageDocument]:
        return await self._read([one.key for one in await self.objects.listed(hour_prefix(region, hour))])

    async def _read(self, keys: Iterable[str]) -> list[UsageDocument]:
        found = []
        for key in keys:
            data = await self.objects.get(key)
            if data is None:
                continue
            try:
                found.append(await asyncio.to_thread(decode, data))
            except ValueError as error:
                log.error("usage not understood", key=key, error=str(error))
        return found


def _hours(start: datetime, end: datetime) -> Iterator[datetime]:
    hour = hour_of(start)
    while hour < end:
        yield hour
        hour += HOUR


def _united(spans: Iterable[Window]) -> list[Window]:
    """Spans without overlaps, by time."""
    found: list[Window] = []
    for span in sorted(spans):
        if found and span.start <= found[-1].end:
            found[-1] = Window(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def _gaps(window: Window, covered: Sequence[Window]) -> list[Window]:
    """What of a window isn't covered. A short gap is none where somebody watched again after it."""
    starts = [window.start, *(span.end for span in covered)]
    ends = [*(span.start for span in covered), window.end]
    found: list[Window] = []
    for number, (after, before) in enumerate(zip(starts, ends, strict=True)):
        start, end = max(after, window.start), min(before, window.end)
        if start < end and (end - start > RESTART or number == len(covered)):
            found.append(Window(start, end))
    return found


def _last_seen(documents: Iterable[UsageDocument]) -> dict[str, datetime]:
    """When those without an end were there for certain, by UID."""
    found: dict[str, datetime] = {}
    for document in documents:
        told = max((span.end for span in document.covered), default=None)
        there: list[NodeUsage | PodUsage] = [*document.nodes, *document.pods]
        for one in there:
            if told is not None and one.end is None:
                found[one.uid] = max(told, found.get(one.uid, told))
    return found


def _within(those: Iterable[T], window: Window, seen: Mapping[str, datetime]) -> Iterator[T]:
    """Those of a window. Of one that nobody saw end, and later nobody saw, the last is known that it was there."""
    for one in those:
        last = seen.get(one.uid)
        found = replace(one, end=max(one.start, last)) if one.end is None and last is not None and last < window.end else one
        if window.overlap(*found.span) is not None or window.holds(found.start):
            yield found

"""Logs that were kept when an execution ended, as what a follower tells: only what he hasn't seen."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence

from shared.clusters.container_following import BATCH
from shared.clusters.kept_logs import KeptLog, KeptLogs
from shared.clusters.log_items import Item, Lines, Notice, Opened, Source
from shared.clusters.log_lines import LogLine, Unseen, dated, passed, undated
from shared.clusters.log_positions import Position
from workers.api.core import Core


class KeptFollower:
    """Tells the kept logs of one execution from a position on."""

    def __init__(self, core: Core, logs: Sequence[KeptLog], index: KeptLogs, position: Position, *, tail: int | None) -> None:
        self._core = core
        self._logs = logs
        self._index = index
        self._position = position
        self._tail = tail

    def position_after(self, source: Source, at: int) -> str:
        """Move the position over the next line that was told, and give it as text."""
        marks = self._position.marks
        marks[source.key] = passed(marks.get(source.key), at)
        return self._position.encode()

    async def items(self) -> AsyncGenerator[Item, None]:
        """Every container, one after the other. Raises UnavailableError."""
        for one in self._logs:
            yield Opened(source=_source(one))
        for one in self._logs:
            async for item in self._items_of(one):
                yield item
        for lost in self._index.lost:
            source = Source(pod=lost.pod, container=lost.container)
            if source.key not in self._position.marks:
                yield Notice(source=source, message=f"this log was not kept: {lost.why}", loss=True)

    async def _items_of(self, one: KeptLog) -> AsyncGenerator[Item, None]:
        source = _source(one)
        mark = self._position.marks.get(source.key)
        if mark is not None and not one.timestamps:
            return  # kept by an earlier release: nobody can tell what of it was not seen
        data = await self._core.objects.get(one.key)
        if data is None:
            yield Notice(source=source, message="this log is no longer kept", loss=True)
            return
        if one.truncated and mark is None:
            yield Notice(source=source, message=f"of this log the last {one.bytes} bytes were kept", loss=True)
        raw = data.splitlines() if mark is not None or self._tail is None else list(deque(data.splitlines(), maxlen=self._tail))
        unseen = Unseen(mark)
        for first in range(0, len(raw), BATCH):
            found = _lines(raw[first : first + BATCH], unseen, timestamps=one.timestamps)
            if found:
                yield Lines(source=source, lines=found, dated=one.timestamps)
            await asyncio.sleep(0)


def _source(one: KeptLog) -> Source:
    return Source(pod=one.pod, container=one.container)


def _lines(raw: Sequence[bytes], unseen: Unseen, *, timestamps: bool) -> list[LogLine]:
    if not timestamps:
        return [LogLine(0, "", line.decode(errors="replace")) for line in raw]
    return [line for line in dated(raw)[0] if unseen.take(line.at)]


def text_of(data: bytes, *, tail: int | None, timestamps: bool) -> bytes:
    """A kept log, or its last lines, without the times."""
    lines = data.splitlines(keepends=True)
    if tail is not None:
        lines = lines[-tail:]
    return b"".join(map(undated, lines)) if timestamps else b"".join(lines)

"""Which windows of the schedule want a report: those without one, and those whose report rests on less than there may be by now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from shared.clock import Clock
from shared.costs.model import Window
from shared.costs.report_keys import ReportKeys
from shared.costs.report_store import ReportStore
from shared.costs.usage_documents import day_prefix, decode, hour_in, hour_of
from shared.costs.windows import completed
from shared.store.objects import S3Objects

BATCH: Final = 24
"""How many reports are made in one run; the next run goes on."""
AGAIN: Final = timedelta(minutes=5)
"""How soon a report that isn't final is looked at again; an older one after an eighth of its age, for nobody may ever come back to tell."""
_AT_ONCE: Final = 8
_OBSERVERS: Final = 20
"""Documents of the first hour that are looked at; a restarted observer has another name."""


class Backlog:
    """Looks for the windows of one region that want a report. What it knows to be final it doesn't ask again."""

    def __init__(
        self, *, region: str, store: ReportStore, objects: S3Objects, clock: Clock, length: timedelta, look_back: timedelta
    ) -> None:
        self._region = region
        self._store = store
        self._objects = objects
        self._clock = clock
        self._length = length
        self._look_back = look_back
        self._final: set[Window] = set()
        self._looked: dict[Window, datetime] = {}
        self._first: datetime | None = None

    async def due(self, *, limit: int = BATCH) -> list[Window]:
        """The windows that want a report: first those that have none, oldest first; then those to be looked at again, newest first.

        Nothing before the time of which an observer first told: then there was no fleet, or nobody knows. Windows that another report
        covers already, made when the schedule was another, are left alone. Raises UnavailableError.
        """
        now = self._clock.now()
        first = await self._first_told(now - self._look_back)
        if first is None:
            return []
        wanted = completed(max(first, now - self._look_back), now, self._length)
        if not wanted:
            return []
        standing = await self._standing(wanted[0].start, now)
        taken = set(standing)
        missing = [one for one in wanted if one not in taken and not _overlaps(one, standing)]
        unsettled = [one for one in reversed(wanted) if one in taken and one not in self._final and self._may_look(one, now)]
        again = await self._not_final(unsettled, limit - len(missing))
        self._final.intersection_update(wanted)
        self._looked = {one: at for one, at in self._looked.items() if one in taken} | dict.fromkeys(again, now)
        return [*missing, *again][:limit]

    def _may_look(self, window: Window, now: datetime) -> bool:
        looked = self._looked.get(window)
        return looked is None or now - looked >= max(AGAIN, (now - window.end) / 8)

    async def _standing(self, since: datetime, now: datetime) -> list[Window]:
        """The windows that have a report, by time; those of the day before too, since a window may be a day long."""
        days = [(since + timedelta(days=number)).date() for number in range(-1, (now - since).days + 2)]
        found = await asyncio.gather(*(self._store.of_day(self._region, day.isoformat(), adhoc=False) for day in days))
        return sorted(keys.window for those in found for keys, _ in those)

    async def _not_final(self, windows: Sequence[Window], limit: int) -> list[Window]:
        found: list[Window] = []
        for begin in range(0, len(windows), _AT_ONCE):
            if len(found) >= limit:
                break
            those = windows[begin : begin + _AT_ONCE]
            summaries = await asyncio.gather(*(self._store.summary(ReportKeys.scheduled(self._region, one)) for one in those))
            for window, summary in zip(those, summaries, strict=True):
                if summary is not None and summary.final:
                    self._final.add(window)
                else:
                    found.append(window)
        return found

    async def _first_told(self, since: datetime) -> datetime | None:
        """The first time since another of which an observer told; None where none did. It is looked for once while it stays in reach."""
        if self._first is not None and self._first >= hour_of(since):
            return self._first
        for number in range((self._clock.now() - since).days + 2):
            day = (since + timedelta(days=number)).replace(hour=0, minute=0, second=0, microsecond=0)
            found = await self._objects.listed(day_prefix(self._region, day), limit=_OBSERVERS)
            if found:
                self._first = min([await self._told_from(one.key) for one in found if hour_in(one.key) == hour_in(found[0].key)])
                return self._first
        return None

    async def _told_from(self, key: str) -> datetime:
        """Since when a document tells; where it can't be read, since the hour that its key names."""
        try:
            document = decode(await self._objects.get(key) or b"")
            return min(span.start for span in document.covered)
        except ValueError:
            return hour_in(key)


def _overlaps(window: Window, standing: Sequence[Window]) -> bool:
    """Whether any of the windows that have a report is partly the same."""
    return any(one.start < window.end and window.start < one.end for one in standing)

"""What waits for endpoints that were being spared, in the order in which it is let go when they are well again."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from shared.clock import Clock
from shared.store.deliveries import Deliveries, DeliveryKey

PAGE: Final = 100
"""Deliveries that are found by one query."""
FRESH: Final = timedelta(seconds=2)
"""How long it is believed that there are none: an index is a little behind, and a busy endpoint would ask each time."""
KEPT: Final = timedelta(seconds=10)
"""How long it is gone by what was found: others let go of the same ones, and a process may have been frozen meanwhile."""
_KNOWN: Final = 1000


@dataclass(slots=True)
class _Backlog:
    found: deque[DeliveryKey] = field(default_factory=deque)
    found_at: datetime | None = None
    reading: bool = False
    empty_at: datetime | None = None


class Backlogs:
    """Keeps the keys of the next ones in memory; whether they still wait is for the table to say."""

    def __init__(self, deliveries: Deliveries, clock: Clock) -> None:
        self._deliveries = deliveries
        self._clock = clock
        self._backlogs: OrderedDict[str, _Backlog] = OrderedDict()

    async def next(self, webhook_id: str) -> DeliveryKey | None:
        """The next that waits for an endpoint; None where there is none, or where somebody is looking. Raises UnavailableError."""
        backlog = self._of(webhook_id)
        if backlog.found_at is not None and self._clock.now() - backlog.found_at >= KEPT:
            backlog.found.clear()
        if not backlog.found and not backlog.reading and not self.empty(webhook_id):
            backlog.reading = True
            try:
                backlog.found.extend(await self._deliveries.spared(webhook_id, limit=PAGE))
            finally:
                backlog.reading = False
            backlog.found_at = self._clock.now()
            backlog.empty_at = None if backlog.found else backlog.found_at
        return backlog.found.popleft() if backlog.found else None

    def empty(self, webhook_id: str) -> bool:
        """Whether none was found a moment ago."""
        at = self._of(webhook_id).empty_at
        return at is not None and self._clock.now() - at < FRESH

    def _of(self, webhook_id: str) -> _Backlog:
        backlog = self._backlogs.setdefault(webhook_id, _Backlog())
        self._backlogs.move_to_end(webhook_id)
        while len(self._backlogs) > _KNOWN:
            self._backlogs.popitem(last=False)
        return backlog

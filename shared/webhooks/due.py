"""When this process must look at the due index next, as far as it knows from what it has written itself."""

from __future__ import annotations

import asyncio
from datetime import datetime


class DueMarks:
    """The earliest marks that were written in this process: enough to wake up for, since each look at the index tells the next one.

    Those from before the look that runs are remembered until it is over, because an index is a little behind its table.
    """

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._before: datetime | None = None
        self.earlier = asyncio.Event()
        """Set by a mark that is earlier than all others since the last look."""

    def note(self, at: datetime | None) -> None:
        """A delivery has been written that must be looked at then; None: never."""
        if at is not None and (self._since is None or at < self._since):
            self._since = at
            self.earlier.set()

    def look(self) -> None:
        """The index is about to be read."""
        self._before, self._since = self._since, None
        self.earlier.clear()

    def following(self, looked_at: datetime) -> datetime | None:
        """When to look again after a look at that time, which has found what was due by then."""
        before = self._before if self._before is not None and self._before > looked_at else None
        return min((at for at in (before, self._since) if at is not None), default=None)

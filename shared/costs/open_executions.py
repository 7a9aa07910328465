"""Which executions haven't ended, as an observer's feed of Jobs tells: what they have used so far may still be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

ExecutionKey = tuple[str, int]
"""Of which job, and which of its executions."""

LINGERS: Final = timedelta(hours=1)
"""So long after its end an execution still counts as open: its end may have to wait until the table answers."""


class OpenExecutions:
    """Executions by the UID of their object."""

    def __init__(self) -> None:
        self._open: dict[str, ExecutionKey] = {}
        self._closed: dict[str, tuple[ExecutionKey, datetime]] = {}

    def listed(self, present: Mapping[str, ExecutionKey], *, at: datetime) -> None:
        """All whose objects stand and have not ended; any other has ended by a time."""
        for uid in self._open.keys() - present.keys():
            self.closed(uid, at=at)
        for uid, key in present.items():
            self.opened(uid, key)

    def opened(self, uid: str, key: ExecutionKey) -> None:
        """An object stands, and has not ended."""
        if uid not in self._closed:
            self._open[uid] = key

    def closed(self, uid: str, *, at: datetime) -> None:
        """An object has ended or is gone."""
        key = self._open.pop(uid, None)
        if key is not None:
            self._closed[uid] = (key, at)

    def lasting(self, now: datetime) -> frozenset[ExecutionKey]:
        """Those that haven't ended, or only a while ago."""
        self._closed = {uid: (key, at) for uid, (key, at) in self._closed.items() if now - at < LINGERS}
        return frozenset([*self._open.values(), *(key for key, _ in self._closed.values())])

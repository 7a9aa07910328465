"""An event loop in which waiting takes no time: when nothing is ready, the clock moves on to the next timer.

It has no sockets and no threads, so what runs in it is decided by the seed alone. A loop in which nothing is ready and no timer stands
would wait for ever: that is a deadlock of what it runs, and raises DeadlockError.
"""

from __future__ import annotations

import asyncio

_MOST_TURNS_WITHOUT_TIME = 200_000


class DeadlockError(Exception):
    """Everything waits, and nothing will come."""


class LivelockError(Exception):
    """Something goes round and round without letting time pass."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """Seconds since the start of the run; only timers move it."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._turns = 0
        self._selector = self  # BaseEventLoop asks its selector to wait

    def time(self) -> float:
        """The virtual time in seconds."""
        return self._now

    def select(self, timeout: float | None) -> list[object]:
        """Wait for as long as BaseEventLoop asks: an instant."""
        if timeout is None:
            raise DeadlockError(f"nothing is scheduled any more at {self._now:.3f} s")
        if timeout > 0:
            self._now += timeout
            self._turns = 0
            return []
        self._turns += 1
        if self._turns > _MOST_TURNS_WITHOUT_TIME:
            raise LivelockError(f"{self._turns} turns at {self._now:.3f} s")
        return []

    def _process_events(self, event_list: list[object]) -> None:
        """There are no files, so there are no events."""

    def _write_to_self(self) -> None:
        """Nobody calls from another thread."""

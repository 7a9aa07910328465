"""What is to happen later, in the order of time: the only notion of time that the controllers have.

Nothing here sleeps. Whoever drives the cluster moves the clock and calls `run`; each action then sees `now` as the very
moment for which it was planned, so that the outcome does not depend on how finely the driver steps.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Timer:
    """One planned action; `cancel` makes it never happen."""

    __slots__ = ("action", "at", "cancelled")

    def __init__(self, at: float, action: Callable[[], None]) -> None:
        self.at = at
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        """Forget the action; the entry leaves the heap when its time comes to the top."""
        self.cancelled = True


class Agenda:
    """Planned actions; those of the same moment happen in the order in which they were planned."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = 0
        self._running = False
        self.now = clock()
        self.alarm: Callable[[], None] | None = None
        """Called when `next` may have become earlier, so that a driver that waits can wait less."""

    def at(self, moment: float, action: Callable[[], None]) -> Timer:
        """Plan an action for a unix time; one in the past happens at the next `run`."""
        timer = Timer(max(moment, self.now), action)
        self._order += 1
        heappush(self._heap, (timer.at, self._order, timer))
        if self.alarm is not None and not self._running and self._heap[0][2] is timer:
            self.alarm()
        return timer

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        """Plan an action for so many seconds after `now`."""
        return self.at(self.now + seconds, action)

    def run(self) -> None:
        """Do everything that is due by the clock, including what those actions plan for before it."""
        limit = self._clock()
        heap = self._heap
        if heap and heap[0][0] <= limit:
            self._running = True
            try:
                self._run_until(limit)
            finally:
                self._running = False
            if self.alarm is not None:
                self.alarm()
        if limit > self.now:
            self.now = limit

    def _run_until(self, limit: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= limit:
            timer = heappop(heap)[2]
            if timer.cancelled:
                continue
            if timer.at > self.now:
                self.now = timer.at
            timer.action()

    def next(self) -> float | None:
        """The unix time of the first planned action, or None."""
        heap = self._heap
        while heap and heap[0][2].cancelled:
            heappop(heap)
        return heap[0][0] if heap else None

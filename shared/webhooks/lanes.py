"""A lane for each endpoint, so that one that hangs delays no other: a few attempts at a time in each, and a bounded number in all.

Half of that number is for lanes whose last work went well, and for nobody else. However many endpoints hang, they have the other half
among them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

import structlog

log = structlog.get_logger()

EACH: Final = 8
"""Attempts at a time to one endpoint."""
TOTAL: Final = 256
"""Attempts at a time in all."""
WAITING: Final = 1000
"""What may wait in one lane. What finds no room there waits in the table."""

_KNOWN: Final = 5000

Work = Callable[[], Awaitable[bool | None]]
"""Tells whether it went well; None: there is nothing to tell."""


@dataclass(slots=True)
class _Lane:
    waiting: deque[tuple[Hashable, Work]] = field(default_factory=deque)
    running: int = 0


class Lanes:
    """Runs work lane by lane, in turn. Work must not raise; what it raises all the same is logged."""

    def __init__(self, *, each: int = EACH, total: int = TOTAL, waiting: int = WAITING) -> None:
        self._each = each
        self._total = total
        self._waiting = waiting
        self._lanes: dict[str, _Lane] = {}
        self._turns: dict[str, None] = {}
        """Lanes that may start something, in the order of their turns: those that go well,"""
        self._doubtful_turns: dict[str, None] = {}
        """and all others, which run so many at a time at most:"""
        self._doubts = max(total // 2, 1)
        self._doubtful = 0
        self._well: OrderedDict[str, None] = OrderedDict()
        self._keys: set[Hashable] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._settling = False

    def room(self, name: str) -> int:
        """How much more a lane takes."""
        return 0 if self._closed or self._settling else self._waiting - self.waiting(name)

    def waiting(self, name: str) -> int:
        """How much waits in a lane."""
        lane = self._lanes.get(name)
        return len(lane.waiting) if lane is not None else 0

    def holds(self, key: Hashable) -> bool:
        """Whether work under this key waits or runs."""
        return key in self._keys

    def offer(self, name: str, key: Hashable, work: Work) -> bool:
        """Put work into a lane; False where there is no room, or where work under the same key is there already."""
        if not self.room(name) or key in self._keys:
            return False
        self._keys.add(key)
        lane = self._lanes.setdefault(name, _Lane())
        lane.waiting.append((key, work))
        self._next_turn(name, lane)
        self._start()
        return True

    async def idle(self) -> None:
        """Until nothing waits or runs."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def settle(self, *, grace_seconds: float) -> None:
        """Drop what waits, and finish what runs, for a while; then let go of it too.

        Nothing is taken meanwhile, so that nothing runs or waits when it returns.
        """
        self._settling = True
        try:
            await self._settle(grace_seconds)
        finally:
            self._settling = False

    async def _settle(self, grace_seconds: float) -> None:
        for name, lane in list(self._lanes.items()):
            self._keys.difference_update(key for key, _ in lane.waiting)
            lane.waiting.clear()
            self._next_turn(name, lane)
        self._turns.clear()
        self._doubtful_turns.clear()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=grace_seconds)
        left = set(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def close(self, *, grace_seconds: float) -> None:
        """Settle, and take nothing any more."""
        self._closed = True
        await self.settle(grace_seconds=grace_seconds)

    def _start(self) -> None:
        while not self._closed and len(self._tasks) < self._total:
            doubtful = bool(self._doubtful_turns) and self._doubtful < self._doubts
            turns = self._doubtful_turns if doubtful else self._turns
            if not turns:
                return
            name = next(iter(turns))
            del turns[name]
            lane = self._lanes[name]
            key, work = lane.waiting.popleft()
            lane.running += 1
            self._doubtful += doubtful
            self._next_turn(name, lane)
            task = asyncio.create_task(self._run(name, lane, key, work, doubtful=doubtful))
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _next_turn(self, name: str, lane: _Lane) -> None:
        turns, others = (self._turns, self._doubtful_turns) if name in self._well else (self._doubtful_turns, self._turns)
        if name in others:
            del others[name]
        if lane.waiting and lane.running < self._each:
            turns.setdefault(name)
        else:
            turns.pop(name, None)
            if not lane.waiting and not lane.running:
                self._lanes.pop(name, None)

    async def _run(self, name: str, lane: _Lane, key: Hashable, work: Work, *, doubtful: bool) -> None:
        try:
            self._learn(name, await work())
        except Exception as error:
            log.error("work of a lane failed", lane=name, exc_info=error)
        finally:
            lane.running -= 1
            self._doubtful -= doubtful
            self._keys.discard(key)
            self._next_turn(name, lane)

    def _learn(self, name: str, went_well: bool | None) -> None:
        if went_well is False:
            self._well.pop(name, None)
        elif went_well:
            self._well[name] = None
            self._well.move_to_end(name)
            while len(self._well) > _KNOWN:
                self._well.popitem(last=False)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._start()

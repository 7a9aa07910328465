"""Facts in order for each object, and side by side for different ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import structlog

from shared.jobs.observation import Fact

log = structlog.get_logger()

CONCURRENCY = 64


class FactQueue:
    """Hands the newest fact of each object to `handle`, one at a time an object and `concurrency` at a time in all.

    A fact that comes while an older one of the same object is handled replaces those in between; that an object is gone is never
    replaced. `handle` returns when the object is to be looked at again; `again` is called then.
    """

    def __init__(
        self,
        handle: Callable[[Fact], Awaitable[timedelta | None]],
        again: Callable[[str], None],
        *,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self._handle = handle
        self._again = again
        self._room = asyncio.Semaphore(concurrency)
        self._newest: dict[str, Fact] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def put(self, fact: Fact) -> None:
        """A fact is known."""
        uid = fact.seen.uid
        standing = self._newest.get(uid)
        if standing is not None and standing.gone:
            return
        self._newest[uid] = fact
        if uid not in self._busy:
            self._busy[uid] = asyncio.create_task(self._work(uid))

    async def _work(self, uid: str) -> None:
        try:
            while (fact := self._newest.pop(uid, None)) is not None:
                async with self._room:
                    pause = await self._handle(fact)
                self._look_again(uid, pause)
        except Exception as error:
            log.error("fact not handled", object=uid, exc_info=error)
        finally:
            self._busy.pop(uid, None)
            if uid in self._newest:
                self._busy[uid] = asyncio.create_task(self._work(uid))

    def _look_again(self, uid: str, pause: timedelta | None) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()
        if pause is not None:
            self._timers[uid] = asyncio.get_running_loop().call_later(pause.total_seconds(), self._ring, uid)

    def _ring(self, uid: str) -> None:
        self._timers.pop(uid, None)
        self._again(uid)

    async def close(self, *, grace_seconds: float) -> None:
        """Finish what is being handled, for a while; then let go. What is dropped is found again by the next list."""
        for timer in self._timers.values():
            timer.cancel()
        tasks: list[asyncio.Task[Any]] = list(self._busy.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

"""Facts in order for each object, and side by side for different ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

import structlog

from shared.errors import UnavailableError
from shared.jobs.observation import Fact

log = structlog.get_logger()

CONCURRENCY: Final = 64
FIRST_PAUSE: Final = 0.2
"""Seconds until a fact that could not be handled comes again; twice as long after each further try."""
LONGEST_PAUSE: Final = 10.0


class FactQueue:
    """Hands the newest fact of each object to `handle`, one at a time an object and `concurrency` at a time in all.

    A fact that comes while an older one of the same object is handled replaces those in between; that an object is gone is never
    replaced. `handle` returns when the object is to be looked at again; `again` is called then.

    Where it raises UnavailableError the fact comes again after a pause, and leaves its place to others until then: however many wait for
    something that takes long, nobody waits for them. A newer fact of the same object takes its place at once.
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
        self._put_off: dict[str, Fact] = {}
        self._tries: dict[str, int] = {}

    def put(self, fact: Fact) -> None:
        """A fact is known."""
        uid = fact.seen.uid
        standing = self._newest.get(uid) or self._put_off.get(uid)
        if standing is not None and standing.gone:
            return
        if self._put_off.pop(uid, None) is not None:
            self._silence(uid)
        self._newest[uid] = fact
        if uid not in self._busy:
            self._busy[uid] = asyncio.create_task(self._work(uid))

    async def _work(self, uid: str) -> None:
        try:
            while (fact := self._newest.pop(uid, None)) is not None:
                try:
                    async with self._room:
                        pause = await self._handle(fact)
                except UnavailableError as error:
                    self._come_again(fact, error)
                else:
                    self._tries.pop(uid, None)
                    self._look_again(uid, pause)
        except Exception as error:
            log.error("fact not handled", object=uid, exc_info=error)
            self._tries.pop(uid, None)
        finally:
            self._busy.pop(uid, None)
            if uid in self._newest:
                self._busy[uid] = asyncio.create_task(self._work(uid))

    def _come_again(self, fact: Fact, error: UnavailableError) -> None:
        """Put a fact off, but for one that a newer one has replaced: that is next."""
        uid = fact.seen.uid
        tries = self._tries[uid] = self._tries.get(uid, 0) + 1
        log.warning("fact not handled yet", job=fact.seen.job_id, tries=tries, error=str(error))
        if uid in self._newest and not fact.gone:
            return
        self._newest.pop(uid, None)
        self._put_off[uid] = fact
        pause = min(FIRST_PAUSE * 2 ** min(tries - 1, 10), LONGEST_PAUSE)
        self._ring_in(uid, max(pause, error.retry_after or 0.0))

    def _look_again(self, uid: str, pause: timedelta | None) -> None:
        if pause is None:
            self._silence(uid)
        else:
            self._ring_in(uid, pause.total_seconds())

    def _ring_in(self, uid: str, seconds: float) -> None:
        self._silence(uid)
        self._timers[uid] = asyncio.get_running_loop().call_later(seconds, self._ring, uid)

    def _silence(self, uid: str) -> None:
        timer = self._timers.pop(uid, None)
        if timer is not None:
            timer.cancel()

    def _ring(self, uid: str) -> None:
        """An object is to be looked at again: by the fact that was put off, or by what is known of it by now."""
        self._timers.pop(uid, None)
        fact = self._put_off.pop(uid, None)
        if fact is not None:
            self.put(fact)
        else:
            self._again(uid)

    async def close(self, *, grace_seconds: float) -> None:
        """Finish what is being handled, for a while; then let go. What is dropped is found again by the next list."""
        self._silence_all()
        tasks: list[asyncio.Task[Any]] = list(self._busy.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
            self._newest.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._silence_all()

    def _silence_all(self) -> None:
        for uid in list(self._timers):
            self._silence(uid)

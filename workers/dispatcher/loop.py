"""The dispatcher's loop: doorbells in, claims and applications out, never more at a time than there are slots.

Doorbells are received only while there is room for what they may bring, and deleted after a look into the ready list that began when they
were there; while there is no room, they stay for another dispatcher. As long as a look shows that more is ready, the loop goes on without
any bell.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any

import structlog

from shared.errors import FleetError, UnavailableError
from shared.jobs.dispatch import Claimed, Dispatch
from shared.jobs.patience import patiently
from shared.jobs.stopping import Stopping
from shared.jobs.waking import Waking
from shared.queues.doorbell import READY, STOP, parse
from shared.queues.heartbeat import at_first, kept_alive
from shared.queues.queue import Message, Queue
from workers.loops import Passes
from workers.process import until_stopped

log = structlog.get_logger()

ECHO_SECONDS = 1.0
"""A bell may be answered before the index shows its job: DynamoDB's indexes follow the table, most often within milliseconds. Where a look
did not find the job that a bell named, another follows after this long."""
VISIBILITY = 30
"""Seconds that a doorbell stays out of sight once it is worked on, renewed as long as that takes; and after an answer that failed."""

MET_PAUSE = 0.02
"""Seconds before the next look after one that won nothing of what was there: others are at it, and a look costs a request."""


class DispatcherLoop:
    """Runs one region's dispatcher until it is stopped."""

    def __init__(
        self,
        *,
        queue: Queue,
        dead_letters: Queue,
        dispatch: Dispatch,
        stopping: Stopping,
        waking: Waking,
        slots: int,
        grace_seconds: float,
        visibility: int = VISIBILITY,
    ) -> None:
        self._queue = queue
        self._dead_letters = dead_letters
        self._dispatch = dispatch
        self._stopping = stopping
        self._waking = waking
        self._slots = slots
        self._grace_seconds = grace_seconds
        self._visibility = visibility
        self.passes = Passes()
        self._free = slots
        self._enough = max(1, slots // 4)
        self._freed = asyncio.Event()
        self._look = asyncio.Event()
        self._asked: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; then finish what has begun, and give back what has not."""
        self._look.set()
        loops = [asyncio.create_task(self._claim_forever()), asyncio.create_task(self._receive_forever())]
        try:
            await until_stopped(stop, *loops)
        finally:
            await self._end(loops)

    async def _end(self, loops: list[asyncio.Task[None]]) -> None:
        self._ending.set()
        loops[1].cancel()
        self._look.set()
        self._freed.set()
        await asyncio.wait([*loops, *self._tasks], timeout=self._grace_seconds)
        for task in [*loops, *self._tasks]:
            task.cancel()
        await asyncio.gather(*loops, *self._tasks, return_exceptions=True)

    async def _claim_forever(self) -> None:
        pause = 0.2
        while not self._ending.is_set():
            await self._look.wait()
            await self._room()
            if self._ending.is_set():
                return
            self._look.clear()
            asked, self._asked = self._asked, []
            self.passes.begin()
            try:
                won, more = await self._dispatch.claim(self._free)
            except UnavailableError as error:
                log.warning("ready list unanswered", error=str(error))
                self.passes.fail(error)
                self._asked += asked
                self._look.set()
                await asyncio.sleep(pause)
                pause = min(pause * 2, 10.0)
                continue
            pause = 0.2
            self.passes.succeed()
            if more:
                self._look.set()
            for future in asked:
                if not future.done():
                    future.set_result(None)
            if won:
                self._free -= len(won)
                self._spawn(self._apply(won))
            elif more:
                await asyncio.sleep(MET_PAUSE)

    async def _apply(self, claimed: list[Claimed]) -> None:
        """Bring the specifications of one look's claims, then apply each on its own."""
        left = list(claimed)
        try:
            if self._ending.is_set():
                await asyncio.gather(*(self._dispatch.give_back(one, "the dispatcher is shutting down") for one in claimed))
                return
            until = min(one.until for one in claimed)
            specifications = await patiently(lambda: self._dispatch.specifications(claimed), until=until)
            while left:
                one = left.pop()
                self._spawn(self._in_slot(self._dispatch.apply_one(one, specifications.get(one.head.id))))
        except UnavailableError as error:
            log.warning("specifications unanswered; the claims lapse", count=len(left), error=str(error))
        finally:
            self._release(len(left))

    async def _in_slot(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await work
        finally:
            self._release(1)

    def _release(self, slots: int) -> None:
        self._free += slots
        self._freed.set()

    async def _room(self) -> None:
        """Wait for room. A quarter of the slots at once, so that a busy dispatcher claims in batches rather than one by one."""
        while self._free < self._enough and not self._ending.is_set():
            self._freed.clear()
            await self._freed.wait()

    async def _receive_forever(self) -> None:
        pause = 0.2
        while not self._ending.is_set():
            await self._room()
            try:
                messages = await self._queue.receive(visibility=at_first(self._visibility))
            except UnavailableError as error:
                log.warning("doorbells unanswered", error=str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, 10.0)
                continue
            pause = 0.2
            await self._answer(messages)

    async def _answer(self, messages: list[Message]) -> None:
        ready = []
        for message in messages:
            ring = parse(message)
            if ring is None:
                self._spawn(self._bury(message))
            elif ring.kind == READY:
                ready.append(message)
            else:
                answer = self._stopping.answer(ring.job_id) if ring.kind == STOP else self._waking.answer(ring.job_id)
                self._spawn(self._handle(message, answer))
        if not ready:
            return
        looked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked.append(looked)
        self._look.set()
        async with kept_alive(self._queue, ready, visibility=self._visibility):
            await looked
        named = (ring.job_id for message in ready if (ring := parse(message)) is not None)
        if not all(self._dispatch.has_seen(job_id) for job_id in named):
            asyncio.get_running_loop().call_later(ECHO_SECONDS, self._look.set)
        await self._delete(ready)

    async def _handle(self, message: Message, answer: Coroutine[Any, Any, None]) -> None:
        """A bell about one job. What fails comes again when the message does, and from the sweeper when that is lost."""
        try:
            async with kept_alive(self._queue, [message], visibility=self._visibility):
                await answer
        except FleetError as error:
            log.info("bell not answered yet", body=message.body, error=str(error))
            await self._put_off(message, error)
            return
        await self._delete([message])

    async def _put_off(self, message: Message, error: FleetError) -> None:
        """Have the message come back when the error says that it is worth another try, or after a while."""
        after = error.retry_after if isinstance(error, UnavailableError) else None
        try:
            await self._queue.extend([message], self._visibility if after is None else min(math.ceil(after), self._visibility))
        except UnavailableError as unanswered:
            log.warning("visibility not changed", error=str(unanswered))

    async def _bury(self, message: Message) -> None:
        """A message that is no doorbell can never be answered: to the dead letters first, then out of the queue."""
        log.error("not a doorbell", message=message.id)
        try:
            await self._dead_letters.send(message.body, attributes={"reason": "not a doorbell"})
        except UnavailableError as error:
            log.warning("dead letter not sent; the message comes again", message=message.id, error=str(error))
            return
        await self._delete([message])

    async def _delete(self, messages: list[Message]) -> None:
        try:
            await self._queue.delete(messages)
        except UnavailableError as error:
            log.warning("doorbells not deleted; they ring again", count=len(messages), error=str(error))

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("task failed", exc_info=task.exception())

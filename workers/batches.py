"""The loop over a queue that every consumer has: batches in, one deletion a batch, a bounded number of batches at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import structlog

from shared.errors import UnavailableError
from shared.queues.heartbeat import at_first, kept_alive
from shared.queues.queue import LONG_POLL_SECONDS, Message, Queue
from workers.loops import Passes

log = structlog.get_logger()

VISIBILITY = 30
"""Seconds that a message stays out of sight once it is worked on, renewed as long as that takes; and after it was left."""
BATCHES = 4
"""Batches of ten that are worked on at the same time."""
FIRST_SECONDS = 1
"""How long the first look waits for messages: a worker that begins tells soon whether its queue answers."""
_MAX_PAUSE = 10.0

T = TypeVar("T")
Told = TypeVar("Told", covariant=True)


class Handler(Protocol[Told]):
    """Whoever knows what messages mean."""

    async def handle_all(self, messages: Sequence[Message]) -> Sequence[Told]:
        """Handle messages, and say what became of each. Never raises."""
        ...


class BatchLoop(Generic[T]):
    """Receives messages and has them handled, until it is stopped. A message of which `left` is said comes again; any other is deleted."""

    def __init__(self, *, queue: Queue, handler: Handler[T], left: T, grace_seconds: float, batches: int = BATCHES) -> None:
        self._queue = queue
        self._handler = handler
        self._left = left
        self._grace_seconds = grace_seconds
        self._room = asyncio.Semaphore(batches)
        self._tasks: set[asyncio.Task[None]] = set()
        self.passes = Passes()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish what has been received. A message that isn't finished in time comes again."""
        receiving = asyncio.create_task(self._receive_forever())
        stopping = asyncio.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([receiving, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            receiving.cancel()
            stopping.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            await self._finish()
        if receiving in done:
            receiving.result()

    async def batch(self, messages: Sequence[Message]) -> Sequence[T]:
        """Handle one batch and delete what is done with, in one request; what is left comes again after a while."""
        async with kept_alive(self._queue, messages, visibility=VISIBILITY):
            outcomes = await self._handler.handle_all(messages)
            finished = [message for message, outcome in zip(messages, outcomes, strict=True) if outcome != self._left]
            if finished:
                try:
                    await self._queue.delete(finished)
                except UnavailableError as error:
                    log.warning("messages not deleted; they come again", count=len(finished), error=str(error))
        if left := [message for message, outcome in zip(messages, outcomes, strict=True) if outcome == self._left]:
            try:
                await self._queue.extend(left, VISIBILITY)
            except UnavailableError as error:
                log.warning("messages not put off; they come again soon", count=len(left), error=str(error))
        return outcomes

    async def _finish(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._grace_seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _receive_forever(self) -> None:
        pause = 0.2
        while True:
            self.passes.begin()
            await self._room.acquire()
            try:
                wait = FIRST_SECONDS if self.passes.succeeded_at is None else LONG_POLL_SECONDS
                messages = await self._queue.receive(visibility=at_first(VISIBILITY), wait_seconds=wait)
            except UnavailableError as error:
                self._room.release()
                self.passes.fail(error)
                log.warning("queue unanswered", queue=self._queue.url, error=str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)
                continue
            except BaseException:
                self._room.release()
                raise
            pause = 0.2
            self.passes.succeed()
            if not messages:
                self._room.release()
                continue
            task = asyncio.create_task(self._in_room(messages))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _in_room(self, messages: Sequence[Message]) -> None:
        try:
            await self.batch(messages)
        finally:
            self._room.release()

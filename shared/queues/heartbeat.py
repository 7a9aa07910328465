"""Keeping received messages out of sight for as long as they are worked on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog

from shared.errors import UnavailableError
from shared.queues.queue import Message, Queue

log = structlog.get_logger()


@asynccontextmanager
async def kept_alive(queue: Queue, messages: Sequence[Message], *, visibility: int) -> AsyncIterator[None]:
    """Within the block, the messages stay invisible: every third of `visibility` seconds it is renewed.

    A renewal that fails is tried again at the next beat; when all fail, the messages come again, which every handler bears.
    """
    if not messages:
        yield
        return

    async def beat() -> None:
        while True:
            await asyncio.sleep(visibility / 3)
            try:
                await queue.extend(messages, visibility)
            except UnavailableError as error:
                log.warning("visibility not renewed", queue=queue.url, error=str(error))

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

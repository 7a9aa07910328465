"""Keeping received messages out of sight for as long as they are worked on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog

from shared.errors import UnavailableError
from shared.queues.queue import Message, Queue

log = structlog.get_logger()

UNHEARD_SECONDS: Final = 5
"""How long messages stay out of sight at first. The long poll of a process that was killed goes on at SQS for up to 20 s, and takes what
comes meanwhile; nobody hears of it, and so it comes again after this long. Whoever lives and isn't done by then renews it before."""


def at_first(visibility: int) -> int:
    """For how many seconds messages are to be received that are then kept out of sight for `visibility` seconds at a time."""
    return min(UNHEARD_SECONDS, visibility)


@asynccontextmanager
async def kept_alive(queue: Queue, messages: Sequence[Message], *, visibility: int) -> AsyncIterator[None]:
    """Within the block, messages that were just received for `at_first(visibility)` seconds stay invisible.

    A third of that later, and then every third of `visibility` seconds, it is renewed for `visibility` seconds. A renewal that
    fails is tried again at the next beat; when all fail, the messages come again, which every handler bears.
    """
    if not messages:
        yield
        return

    async def beat() -> None:
        pause = at_first(visibility) / 3
        while True:
            await asyncio.sleep(pause)
            try:
                await queue.extend(messages, visibility)
            except UnavailableError as error:
                log.warning("visibility not renewed", queue=queue.url, error=str(error))
            else:
                pause = visibility / 3

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

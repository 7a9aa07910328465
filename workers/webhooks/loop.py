"""The webhook worker as one process: it reads the stream, makes deliveries, sends them, and sends them again. Any number may run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from workers.batches import BatchLoop
from workers.loops import AllPasses
from workers.process import until_stopped
from workers.webhooks.build import Parts, sweep_loop
from workers.webhooks.events import Outcome
from workers.webhooks.stream_loop import StreamLoop

Run = Callable[[asyncio.Event], Awaitable[None]]


class WebhookLoop:
    """Runs until it is stopped; then what has been received is written, what is being sent is finished, and the rest is given back."""

    def __init__(self, parts: Parts, *, stream: StreamLoop | None = None) -> None:
        self._parts = parts
        grace = parts.settings.shutdown_seconds
        events = BatchLoop(queue=parts.queue, handler=parts.handler, left=Outcome.LEFT, grace_seconds=grace / 2)
        sweep = sweep_loop(parts)
        self.passes = AllPasses([events.passes, sweep.passes])
        self._loops: list[Run] = [events.run, sweep.run, *([stream.run] if stream is not None else [])]

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, or one of the loops fails."""
        ending = asyncio.Event()
        tasks = [asyncio.create_task(_run(loop, ending)) for loop in self._loops]
        try:
            await until_stopped(stop, *tasks)
            ending.set()
            await asyncio.wait(tasks, timeout=self._parts.settings.shutdown_seconds / 2)
            await self._parts.courier.close(grace_seconds=self._parts.settings.shutdown_seconds / 2)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _run(loop: Run, stop: asyncio.Event) -> None:
    await loop(stop)

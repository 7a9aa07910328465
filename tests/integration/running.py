"""Loops that run in the process of a test, and waiting for what they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Self


@dataclass
class Worker:
    """A running loop; `kill` drops it as it stands, with no chance to clean up."""

    task: asyncio.Task[None]
    asked: asyncio.Event

    @classmethod
    def start(cls, run: Callable[[asyncio.Event], Any], **parts: Any) -> Self:
        """Run a loop until it is asked to stop."""
        asked = asyncio.Event()
        return cls(task=asyncio.create_task(run(asked)), asked=asked, **parts)

    async def stop(self) -> None:
        self.asked.set()
        await self.task

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def until(ask: Callable[[], Any], *, seconds: float = 20.0) -> Any:
    """Ask until the answer is true; gives it."""
    async with asyncio.timeout(seconds):
        while True:
            answer = ask()
            if isawaitable(answer):
                answer = await answer
            if answer:
                return answer
            await asyncio.sleep(0.02)

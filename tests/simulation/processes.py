"""Processes that can be killed, frozen and started again.

Every task knows the life (one run of one process) that it belongs to, because tasks inherit their creator's context. SIGKILL ends a life:
its tasks are cancelled, and whatever their clean-up code still tries to do in the world is refused by `Life.check`, so that nothing of it
takes effect.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")
Main = Callable[["Life"], Coroutine[Any, Any, None]]

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""When every run begins."""

_current: contextvars.ContextVar[Life | None] = contextvars.ContextVar("life", default=None)


class KilledError(BaseException):
    """Raised in a process that is no more. No handler of the real code catches it."""


class Clock:
    """The clock of one machine: off by a skew, which may jump."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew: float) -> None:
        self._loop = loop
        self.skew = skew

    def now(self) -> datetime:
        """The time as this machine believes it to be."""
        return EPOCH + timedelta(seconds=self._loop.time() + self.skew)


class Life:
    """One run of a process, from its start to its end."""

    def __init__(self, process: Process, number: int) -> None:
        self.process = process
        self.name = f"{process.name}#{number}"
        self.alive = True
        self.stop = asyncio.Event()
        self._frozen_until = 0.0
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def check(self) -> None:
        """Raise KilledError in a process that is no more."""
        if not self.alive:
            raise KilledError(self.name)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """A task of this life has been made."""
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None) and None)

    def freeze(self, seconds: float) -> None:
        """Stop the whole process for a time, as a pause of its machine does."""
        self._frozen_until = max(self._frozen_until, self.process.loop.time() + seconds)

    async def thaw(self) -> None:
        """Wait while the process is frozen."""
        while (left := self._frozen_until - self.process.loop.time()) > 0:
            await asyncio.sleep(left)
        self.check()

    def kill(self) -> None:
        """SIGKILL."""
        if not self.alive:
            return
        self.alive = False
        self.stop.set()
        for task in list(self._tasks):
            task.cancel()
        self.process.ended()

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task in this life, from outside."""
        context = contextvars.copy_context()
        context.run(_current.set, self)
        return self.process.loop.create_task(coroutine, context=context)


class Process:
    """Something that runs, dies and is started again under one name on one machine."""

    def __init__(
        self,
        name: str,
        main: Main,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        pause: Callable[[], float],
        on_error: Callable[[str, BaseException], None],
    ) -> None:
        self.name = name
        self.loop = loop
        self.clock = clock
        self._main = main
        self._pause = pause
        self._on_error = on_error
        self._lives = 0
        self._retired = False
        self.life = Life(self, 0)
        self.life.alive = False

    def start(self) -> None:
        """Begin a new life, unless one is going on."""
        if self._retired or self.life.alive:
            return
        self._lives += 1
        life = self.life = Life(self, self._lives)
        life.spawn(self._run(life))

    def retire(self) -> None:
        """End it for good: the run is over."""
        self._retired = True
        self.life.kill()

    def ended(self) -> None:
        """A life is over; the supervisor begins another after a while."""
        if not self._retired:
            self.loop.call_later(self._pause(), self.start)

    async def _run(self, life: Life) -> None:
        try:
            await self._main(life)
        except Exception as error:  # noqa: BLE001 - whatever it is, a worker that ends by it is a finding
            self._on_error(life.name, error)
        life.kill()

    async def serve(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a request in this process for somebody outside. Raises ConnectionError where the process is down or goes down."""
        life = self.life
        if not life.alive:
            raise ConnectionRefusedError(self.name)

        async def answer() -> T:
            return await work()

        task = life.spawn(answer())
        await asyncio.wait([task])
        if not life.alive or task.cancelled():
            if not task.cancelled():
                task.exception()
            raise ConnectionResetError(self.name)
        return task.result()


def make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    """A task factory that gives each task to the life in whose context it is made."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    context = options.get("context")
    life = context.get(_current) if context is not None else _current.get()
    if life is not None:
        life.adopt(task)
    return task

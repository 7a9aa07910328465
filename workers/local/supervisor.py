"""The supervisor: starts the children stage by stage, starts again what dies, and ends all of them in order.

What dies is started again. One that was ready when it died is back at once, however often it is killed; one that dies before it is ready
waits for a pause that doubles (0.1 s to 5 s), so that what can't start doesn't keep a processor busy. A vital child's death ends the fleet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path

from workers.local.child import Child, ChildFailedError, ChildSpec

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 5.0

Notice = Callable[[str], None]


class Supervisor:
    """Keeps child processes running until it is stopped."""

    def __init__(self, *, logs: Path, notice: Notice = lambda _: None) -> None:
        self.logs = logs
        self._notice = notice
        self._children: dict[str, Child] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._stopping = False
        self._broken: asyncio.Future[None] | None = None

    @property
    def children(self) -> dict[str, Child]:
        """All children by name, running or not."""
        return dict(self._children)

    @property
    def restarts(self) -> int:
        """How often a child had to be started again."""
        return sum(child.starts - 1 for child in self._children.values())

    async def start(self, specs: Iterable[ChildSpec]) -> None:
        """Start children, stage by stage. Raises ChildFailedError; then nothing of them is left."""
        try:
            for _, stage in groupby(sorted(specs, key=lambda spec: spec.stage), key=lambda spec: spec.stage):
                await self._start_stage(list(stage))
        except BaseException:
            await self.stop()
            raise

    async def _start_stage(self, specs: Sequence[ChildSpec]) -> None:
        started = []
        for spec in specs:
            child = Child(spec=spec, log=self.logs / f"{spec.name}.log")
            self._children[spec.name] = child
            await child.start()
            started.append(child)
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(_outcome(child)) for child in started]
        for task in waiting:
            if (failed := task.result()) is not None:
                raise failed
        for child in started:
            self._keepers[child.name] = asyncio.create_task(self._keep(child))

    async def _keep(self, child: Child) -> None:
        pause = FIRST_PAUSE
        while True:
            await self._until_dead(child)
            if self._stopping:
                return
            if child.spec.vital:
                self._break(child.failed(child.how_it_ended()))
                return
            self._notice(f"{child.name} {child.how_it_ended()}; it is started again")
            child.kill()  # whatever it left behind in its group
            if child.ready_at is not None:
                pause = FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            if not self._stopping:
                await child.start()

    @staticmethod
    async def _until_dead(child: Child) -> None:
        """Wait for its end, and note meanwhile when it becomes ready, be it later than a first start may take."""
        asking = None if child.ready else asyncio.create_task(_until_ready(child))
        try:
            await child.wait()
        finally:
            if asking is not None:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)

    def _break(self, error: ChildFailedError) -> None:
        if self._broken is None or not self._broken.done():
            self._failure().set_exception(error)

    def _failure(self) -> asyncio.Future[None]:
        if self._broken is None:
            self._broken = asyncio.get_running_loop().create_future()
            self._broken.add_done_callback(lambda future: future.cancelled() or future.exception())
        return self._broken

    async def until_broken(self) -> None:
        """Wait for ever; raises ChildFailedError once a vital child has died."""
        await asyncio.shield(self._failure())

    def kill(self, name: str) -> int:
        """SIGKILL for a child, as if the machine had lost it; returns the process id that it had. Raises KeyError, ProcessLookupError."""
        child = self._children[name]
        pid = child.pid
        if pid is None:
            raise ProcessLookupError(f"{name} does not run at this moment")
        child.kill()
        return pid

    async def stop(self) -> None:
        """End all children, the last stage first; those of one stage side by side."""
        self._stopping = True
        ordered = sorted(self._children.values(), key=lambda child: -child.spec.stage)
        for _, stage in groupby(ordered, key=lambda child: child.spec.stage):
            await asyncio.gather(*(child.stop() for child in stage))
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        # A keeper may have started a child again while the others were stopped.
        await asyncio.gather(*(child.stop() for child in ordered))


async def _until_ready(child: Child) -> None:
    while child.pid is not None and not child.ready:
        await _outcome(child)


async def _outcome(child: Child) -> ChildFailedError | None:
    try:
        await child.until_ready()
    except ChildFailedError as error:
        return error
    return None

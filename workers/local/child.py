"""One child process: how it is started, asked whether it is ready, and ended with everything that it started itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from workers.local import leash, logfiles


@dataclass(frozen=True, kw_only=True, slots=True)
class ChildSpec:
    """A program of the fleet.

    `ready` asks it (or looks for its answer) and says whether it can be used. `vital` means that a restart would not help, since what
    it knew is gone with it. `stage` orders the start: every child of a stage is ready before the next stage begins; the end is the reverse.
    """

    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    stage: int
    ready: Callable[[Child], Awaitable[bool]]
    vital: bool = False
    start_seconds: float = 30.0
    stop_seconds: float = 8.0


class ChildFailedError(Exception):
    """A child ended, or did not become ready in time; says how, and with the last lines of its log."""

    def __init__(self, name: str, what: str, log: Path, begin: int) -> None:
        self.name = name
        self.log = log
        lines = logfiles.tail(log, begin=begin)
        super().__init__(f"{name} {what}; the end of {log}:\n{lines or '(nothing was written)'}")


@dataclass(kw_only=True)
class Child:
    """A running (or ended) child; `starts` counts how often it was started, `ready_at` is when it last became ready (monotonic seconds)."""

    spec: ChildSpec
    log: Path
    starts: int = 0
    log_begin: int = 0
    ready_at: float | None = None
    process: Process | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """What the supervisor calls it."""
        return self.spec.name

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self.process.pid if self.process is not None and self.process.returncode is None else None

    @property
    def ready(self) -> bool:
        """Whether it runs and has become ready since it was last started."""
        return self.pid is not None and self.ready_at is not None

    async def start(self) -> None:
        """Start it: in a process group of its own, so that a Ctrl-C reaches the supervisor alone, and on a leash."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log_begin = logfiles.size(self.log)
        self.ready_at = None
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-S", "-E", leash.__file__, str(os.getpid())),
                *self.spec.arguments,
                stdin=PIPE,
                stdout=output,
                stderr=output,
                env=dict(self.spec.environment),
                start_new_session=True,
            )
        self.starts += 1

    async def until_ready(self) -> None:
        """Wait until it says that it is. Raises ChildFailedError."""
        try:
            async with asyncio.timeout(self.spec.start_seconds):
                while not await self.spec.ready(self):
                    if self.pid is None:
                        raise self.failed(self.how_it_ended())
                    await asyncio.sleep(0.03)
        except TimeoutError:
            raise self.failed(f"was not ready after {self.spec.start_seconds:.0f} s") from None
        self.ready_at = time.monotonic()

    async def wait(self) -> int:
        """Wait for its end; its exit code, negative for a signal."""
        assert self.process is not None
        return await self.process.wait()

    async def stop(self) -> None:
        """Ask it to end, and end it with its whole group when it hasn't in time. Nothing of it is left after that."""
        if self.process is None:
            return
        if self.process.returncode is None:
            self.signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.spec.stop_seconds):
                    await self.process.wait()
        self.kill()
        await self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()

    def kill(self) -> None:
        """SIGKILL for its whole process group; also for what is left of a group whose leader has ended."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send a signal to the child itself."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def how_it_ended(self) -> str:
        """In words, once it has."""
        code = self.process.returncode if self.process is not None else None
        if code is None:
            return "runs"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def failed(self, what: str) -> ChildFailedError:
        """An error that tells of its failure, with the end of its log."""
        return ChildFailedError(self.name, what, self.log, self.log_begin)

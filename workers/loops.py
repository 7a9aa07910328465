"""The loops of workers that run in one process with the API: whether each still runs, and how its last pass went."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from shared.clock import Clock, SystemClock

if TYPE_CHECKING:
    from shared.health.beats import Progress


class Passes:
    """What a loop notes of its passes. `error` is that of the last one; None where it succeeded."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self.started_at: datetime | None = None
        self.succeeded_at: datetime | None = None
        self.error: str | None = None

    def begin(self) -> None:
        """A pass begins."""
        self.started_at = self._clock.now()

    def succeed(self) -> None:
        """It did what there was to do."""
        self.succeeded_at = self._clock.now()
        self.error = None

    def fail(self, error: Exception) -> None:
        """It could not; another follows."""
        self.error = str(error)


class AllPasses:
    """Several loops that are told of as one: it is as ill as the worst of them, and its last good pass is the one that lies longest ago."""

    def __init__(self, parts: Sequence[Passes]) -> None:
        self._parts = parts

    @property
    def started_at(self) -> datetime | None:
        """When the pass began that has been under way for longest; None where none is."""
        begun = ((part.started_at, part.succeeded_at) for part in self._parts)
        return min((began for began, ended in begun if began is not None and (ended is None or ended < began)), default=None)

    @property
    def succeeded_at(self) -> datetime | None:
        """When the last good passes of all had ended; None while one has none."""
        ended = [part.succeeded_at for part in self._parts]
        known = [moment for moment in ended if moment is not None]
        return min(known) if known and len(known) == len(ended) else None

    @property
    def error(self) -> str | None:
        """That of the first whose last pass failed."""
        return next((part.error for part in self._parts if part.error is not None), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """A loop that was started; `owner` is its name in claims, `passes` what it notes of itself, where it does."""

    name: str
    task: asyncio.Task[None]
    owner: str | None = None
    passes: Progress | None = None


class Loops:
    """The loops of a process; none, where the API runs alone. `stopping` says that they are meant to end."""

    def __init__(self) -> None:
        self._loops: dict[str, Loop] = {}
        self.stopping = False

    def add(self, loop: Loop) -> None:
        """A loop has been started."""
        self._loops[loop.name] = loop

    def get(self, name: str) -> Loop | None:
        """The loop of a name."""
        return self._loops.get(name)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What runs them."""
        return [loop.task for loop in self._loops.values()]

    @property
    def passes(self) -> list[tuple[str, Progress]]:
        """What they note of themselves, by name."""
        return [(loop.name, loop.passes) for loop in self._loops.values() if loop.passes is not None]

    def ended(self) -> list[str]:
        """The names of loops that have ended though nobody asked them to."""
        return [] if self.stopping else [name for name, loop in self._loops.items() if loop.task.done()]

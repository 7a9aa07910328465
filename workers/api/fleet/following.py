"""Following a job's logs over all of its executions, until the job is terminal.

An execution that runs is followed on its cluster, one that has ended is told from what was kept of it. One position goes through both, so
that what was told live isn't told again, and what was missed is told later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import structlog

from shared.clusters.log_items import Choice, Ended, Item, Lines, Notice, Opened, Source
from shared.clusters.log_positions import Position
from shared.errors import FleetError, NotFoundError, UnavailableError
from shared.jobs.model import Head
from workers.api.core import Core
from workers.api.fleet.kept_lines import KeptFollower
from workers.api.fleet.log_positions import JobPosition, encode
from workers.api.fleet.logs import Wanted, chosen
from workers.api.log_events import PositionAfter, log_event

log = structlog.get_logger()

LOOK_SECONDS: Final = 5.0
"""How often the job is looked at, at the least, while nothing of it runs."""
QUIET_SECONDS: Final = 30.0
"""How long a log that is followed may be quiet before the job is looked at: its cluster may be cut off, and the job run elsewhere."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One item of one execution, and who knows the position after it."""

    execution: int
    item: Item
    position_after: PositionAfter | None = None

    def event(self) -> bytes:
        """As server-sent events."""
        return log_event(self.item, self._position_after, {"execution": self.execution})

    def _position_after(self, source: Source, at: int) -> str:
        assert self.position_after is not None
        return encode(self.execution, self.position_after(source, at))


class JobFollower:
    """Follows one job from a position on."""

    def __init__(self, core: Core, head: Head, wanted: Wanted, position: JobPosition | None) -> None:
        self._core = core
        self._head = head
        self._wanted = wanted
        self._choice = Choice(pod=wanted.pod, container=wanted.container, tail=wanted.tail)
        self._number = wanted.execution or (position.execution if position is not None else head.execution)
        self._position = position.logs if position is not None and position.execution == self._number else None
        self._followed: str | None = None
        """The UID of the object that was followed to its end."""
        self._whole = False
        """Whether all of the present execution was told."""
        self._lost = False

    async def told(self) -> AsyncGenerator[Told, None]:
        """What there is to tell, to the end."""
        pause = self._core.look_seconds
        while True:
            if self._runs:
                async with aclosing(self._live()) as items:
                    async for told in items:
                        yield told
            elif self._over:
                async with aclosing(self._rest()) as items:
                    async for told in items:
                        self._lost = self._lost or (isinstance(told.item, Notice) and told.item.loss)
                        yield told
                if self._wanted.execution is not None or self._number >= self._head.execution:
                    yield Told(execution=self._number, item=await self._end())
                    return
                self._number, self._position, self._whole = self._number + 1, None, False
                continue
            await asyncio.sleep(pause)
            before, self._head = self._head, await self._look()
            pause = self._core.look_seconds if self._head != before else min(pause * 1.5, max(LOOK_SECONDS, pause))

    @property
    def _runs(self) -> bool:
        """Whether there is an object on a cluster that wasn't followed yet."""
        head = self._head
        there = self._number == head.execution and head.state.on_cluster and head.object is not None and self._core.logs is not None
        return there and head.object is not None and head.object.uid != self._followed

    @property
    def _over(self) -> bool:
        return self._number < self._head.execution or self._head.state.terminal

    async def _look(self) -> Head:
        try:
            return await self._core.jobs.head(self._head.id) or self._head
        except UnavailableError as error:
            log.info("job not looked at", job=self._head.id, error=str(error))
            return self._head

    async def _live(self) -> AsyncGenerator[Told, None]:
        """What a running execution writes, until it has ended or its job has gone on without it."""
        assert self._core.logs is not None
        assert self._head.object is not None
        uid = self._head.object.uid
        try:
            follower = await self._core.logs.follow(self._head, self._choice, self._position)
        except UnavailableError as error:
            log.info("logs not followed yet", job=self._head.id, error=str(error))
            return
        self._position = follower.position
        async with aclosing(follower.items()) as items:
            upcoming: asyncio.Future[Item | None] | None = None
            try:
                while True:
                    upcoming = upcoming or asyncio.ensure_future(anext(items, None))
                    done, _ = await asyncio.wait([upcoming], timeout=QUIET_SECONDS)
                    if not done:
                        self._head = await self._look()
                        if self._over:
                            return
                        continue
                    item, upcoming = upcoming.result(), None
                    if item is None or isinstance(item, Ended):
                        self._whole, self._followed = item is not None and item.whole, uid
                        return
                    yield Told(execution=self._number, item=item, position_after=follower.position_after)
            finally:
                if upcoming is not None:
                    upcoming.cancel()
                    await asyncio.gather(upcoming, return_exceptions=True)

    async def _rest(self) -> AsyncGenerator[Told, None]:
        """What was kept of an execution, as far as it wasn't told."""
        if self._whole:
            return
        try:
            index, logs = await chosen(self._core, self._head, self._number, self._wanted)
            position = self._position or Position(job=b"")
            follower = KeptFollower(self._core, logs, index, position, tail=self._wanted.tail)
            async with aclosing(follower.items()) as items:
                async for item in items:
                    yield Told(execution=self._number, item=item, position_after=follower.position_after)
        except FleetError as error:
            log.info("kept logs not read", job=self._head.id, execution=self._number, error=str(error))
            if self._number < self._head.execution or self._head.object is not None:
                yield Told(execution=self._number, item=Notice(source=None, message=f"what is missing was not kept: {error}", loss=True))

    async def _end(self) -> Ended:
        """How it ended: the job, or the one execution that was asked for."""
        head = self._head
        if self._number == head.execution:
            return Ended(outcome=head.state.value, reason=head.reason, message=head.message, whole=not self._lost)
        found = next((one for one in await self._core.history.executions(head) if one.number == self._number), None)
        if found is None:
            raise NotFoundError("Execution", f"{head.id}/{self._number}")
        return Ended(outcome=found.state.value, reason=found.reason, message=found.message, whole=not self._lost)


async def events(follower: JobFollower) -> AsyncGenerator[bytes, None]:
    """As server-sent events."""
    async with aclosing(follower.told()) as items:
        async for told in items:
            yield told.event()


async def text(follower: JobFollower) -> AsyncGenerator[bytes, None]:
    """As plain text; once more than one container is known, behind a line that tells whose lines follow."""
    known: set[Source] = set()
    last: Source | None = None
    async with aclosing(follower.told()) as items:
        async for told in items:
            match told.item:
                case Opened(source=source):
                    known.add(source)
                case Lines(source=source, lines=lines):
                    heading = f"==> {source} <==\n" if source != last and len(known) > 1 else ""
                    last = source
                    yield (heading + "".join(f"{line.text}\n" for line in lines)).encode()
                case _:
                    continue

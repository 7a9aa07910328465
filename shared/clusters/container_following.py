"""Following the log of one container over everything that ends a stream: its restarts, the log's rotation, broken connections.

A kubelet ends the stream of a container that has exited, and may end or forget one whose log it rotates
(https://github.com/kubernetes/kubernetes/issues/59902). Which of them it was, only the pod's status tells, and later. So the log is simply
read again from where it was seen last, until the container has ended *before* a reading that came to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import ApiError, MissingError
from shared.clusters.followed_pods import FollowedPod
from shared.clusters.kinds import POD
from shared.clusters.log_items import Lines, Notice, Source
from shared.clusters.log_lines import LineSplitter, Mark, Unseen, dated
from shared.clusters.watch import Backoff
from shared.errors import FleetError, UnavailableError

log = structlog.get_logger()

SILENCE_SECONDS: Final = 120.0
"""A stream that was silent for longer is opened anew: its connection may be dead, or its file rotated away."""
LONGEST_PAUSE: Final = 10.0
REFUSED_SECONDS: Final = 30.0
"""The pause after the cluster refused to give a log, which is nothing that passes by itself."""
STANDING_SECONDS: Final = 10.0
"""How long a stream may stand when its container has ended, before what is left is read without following."""
EMPTY_SECONDS: Final = 2.0
"""A stream that has given nothing for so long has nothing of the past to give."""
BATCH: Final = 200
"""Lines that are handed on at once: to write them as events takes some milliseconds, in which nobody else gets a turn."""
DRAINING_SECONDS: Final = 60.0
"""How long the last reading is tried where the cluster doesn't answer; the machine of a pod may be gone for good."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Beginning:
    """How a log is read for the first time: from its last lines (`tail`), or from a time on (RFC 3339), or, with `whole`, all there is.

    `whole` includes what the run before the present one wrote.
    """

    tail: int | None = None
    since: str | None = None
    whole: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Rooms:
    """How many containers may be followed at the same time, and how many that have ended read: these never wait for those that go on."""

    following: asyncio.Semaphore
    reading: asyncio.Semaphore


Put = Callable[[Lines | Notice], Awaitable[None]]
"""Takes what comes, and returns when there is room for more; so a slow reader slows the stream from the cluster."""


class ContainerFollowing:
    """Follows one container from a mark to its end."""

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        source: Source,
        pod: FollowedPod,
        put: Put,
        *,
        mark: Mark | None = None,
        beginning: Beginning,
        rooms: Rooms,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self._api = api
        self._path = f"{POD.path(namespace, source.pod)}/log"
        self._source = source
        self._pod = pod
        self._put = put
        self._mark = mark
        self._first: Beginning | None = beginning if mark is None else None
        self._rooms = rooms
        self._silence = silence
        self._backoff = Backoff(0.2, LONGEST_PAUSE)
        self._restarts = 0 if mark is not None or beginning.whole else pod.state(source.container).restarts
        self._doubtful = mark is not None
        """Whether lines may have been missed since the last one that was seen."""
        self._read_once = False
        self._give_up_at: float | None = None
        self._told = ""

    async def run(self) -> None:
        """Until the container has ended and its log was read to the end. Raises nothing that a cluster could cause."""
        while not await self._step():
            pass

    async def _step(self) -> bool:
        """Read once, and wait for a reason to read again; whether there is none."""
        await self._until_started()
        state, ended = self._pod.state(self._source.container), self._pod.ended(self._source.container)
        if not state.started and ended:
            return True
        before = self._mark
        try:
            if not ended and self._rooms.following.locked():
                await self._notice("more containers write at the same time than are followed; this one waits for another to end")
            async with self._rooms.reading if ended else self._rooms.following:
                await self._read(state.restarts, to_the_end=ended)
        except MissingError:
            await self._tell_loss("the pod is gone")
            return True
        except UnavailableError as error:
            return await self._broken(error, ended=ended)
        except FleetError as error:
            await self._refused(error, ended=ended)
            return ended
        self._give_up_at = None
        if ended:
            return True
        if self._mark != before:
            self._backoff.reset()
        if self._pod.state(self._source.container) == state and not self._pod.ended(self._source.container):
            # Where no run of it writes, what this reading gave is all that there is until another run begins.
            await self._pod.changed(self._backoff.next() if state.running else None)
        return False

    async def _until_started(self) -> None:
        name = self._source.container
        while not self._pod.state(name).started and not self._pod.ended(name):
            await self._pod.changed()

    async def _read(self, restarts: int, *, to_the_end: bool) -> None:
        """One reading of the log: of what is there, or until the stream ends."""
        query = {"container": self._source.container, "timestamps": "true", **self._from_here()}
        if not to_the_end:
            query["follow"] = "true"
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with (
                asyncio.timeout(None) as limit,
                self._hurried(limit, to_the_end=to_the_end),
                self._api.stream(self._path, query=query, silence=self._silence) as chunks,
            ):
                doubtful, self._doubtful = self._doubtful, True
                # The run before is read while the stream of the present one stands, so that a restart in between is not overlooked.
                if doubtful or restarts > self._restarts:
                    await self._read_previous()
                self._restarts = restarts
                await self._pass_on(chunks, whole=to_the_end)
        except TimeoutError:
            return
        finally:
            if loop.time() - begun > EMPTY_SECONDS:
                self._first = None
        self._first, self._doubtful, self._read_once = None, False, True

    @asynccontextmanager
    async def _hurried(self, limit: asyncio.Timeout, *, to_the_end: bool) -> AsyncIterator[None]:
        """Let a stream that is followed stand for a while only when its container has ended."""
        if to_the_end:
            yield
            return
        loop = asyncio.get_running_loop()

        async def hurry() -> None:
            while not self._pod.ended(self._source.container):
                await self._pod.changed()
            limit.reschedule(loop.time() + STANDING_SECONDS)

        hurrying = asyncio.create_task(hurry())
        try:
            yield
        finally:
            hurrying.cancel()

    async def _read_previous(self) -> None:
        """What the run before the present one wrote and was not seen. That there was none is how most readings end."""
        query = {"container": self._source.container, "timestamps": "true", "previous": "true", **self._from_here()}
        try:
            async with self._api.stream(self._path, query=query, silence=self._silence) as chunks:
                await self._pass_on(chunks, whole=True)
        except ApiError:
            return

    def _from_here(self) -> dict[str, str]:
        if self._mark is not None:
            return {"sinceTime": self._mark.since.strftime("%Y-%m-%dT%H:%M:%SZ")}
        first: dict[str, str] = {}
        if self._first is not None and self._first.tail is not None:
            first["tailLines"] = str(self._first.tail)
        if self._first is not None and self._first.since is not None:
            first["sinceTime"] = self._first.since
        return first

    async def _pass_on(self, chunks: AsyncIterator[bytes], *, whole: bool) -> None:
        """Hand on what is new. A last line without an end counts only where nothing can follow it (`whole`)."""
        unseen, splitter = Unseen(self._mark), LineSplitter()
        async for chunk in chunks:
            await self._hand_on(splitter.feed(chunk), unseen)
        if whole and (rest := splitter.rest()):
            await self._hand_on([rest], unseen)

    async def _hand_on(self, raw: list[bytes], unseen: Unseen) -> None:
        for first in range(0, len(raw), BATCH):
            lines, others = dated(raw[first : first + BATCH])
            for other in others:
                await self._notice(other)
            if new := [line for line in lines if unseen.take(line.at)]:
                await self._put(Lines(source=self._source, lines=new))
                # Not before: a reading that is given up while it waits here has not shown them.
                self._mark = unseen.mark

    async def _refused(self, error: FleetError, *, ended: bool) -> None:
        """A 400 says that the container has no log yet or any more; anything else is told."""
        waits = isinstance(error, ApiError) and error.code == 400
        if ended or not waits:
            await self._notice(str(error), loss=ended)
        if not ended:
            await self._pod.changed(self._backoff.next() if waits else REFUSED_SECONDS)

    async def _broken(self, error: UnavailableError, *, ended: bool) -> bool:
        """The cluster didn't answer, or no more; whether it is given up."""
        self._doubtful = True
        now = asyncio.get_running_loop().time()
        if ended:
            self._give_up_at = self._give_up_at or now + DRAINING_SECONDS
            if now >= self._give_up_at:
                await self._tell_loss(str(error))
                return True
        pause = max(self._backoff.next(), error.retry_after or 0.0)
        log.info("log stream broke", source=str(self._source), pause=pause, error=str(error))
        await asyncio.sleep(pause)
        return False

    async def _tell_loss(self, why: str) -> None:
        if self._doubtful or not self._read_once:
            await self._notice(f"{why}: the last lines of its log may be missing", loss=True)

    async def _notice(self, message: str, *, loss: bool = False) -> None:
        if message != self._told:
            self._told = message
            await self._put(Notice(source=self._source, message=message, loss=loss))

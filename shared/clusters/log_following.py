"""Following the logs of a Job: every container of every pod at the same time, pods that come later too, until the Job has ended and all of
it was shown. Each line comes once, also to a reader who goes on elsewhere from the position of the last line that he has seen.

Two watches tell what there is, and a stream for each container what it writes; nothing is asked for again and again. What a slow reader
has not taken yet stays on the cluster: only a few pieces of its streams wait here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from shared.clock import Clock, SystemClock
from shared.clusters.api import KubernetesApi
from shared.clusters.container_following import Beginning, ContainerFollowing, Rooms
from shared.clusters.errors import ApiError
from shared.clusters.followed_pods import FollowedPod, FollowedPods, PodNews, pod_news
from shared.clusters.job_pods import controller_uid, pod_selector
from shared.clusters.job_status import computed_status, finished
from shared.clusters.kinds import JOB, POD
from shared.clusters.listing import whole_list
from shared.clusters.log_items import Choice, Ended, Item, Lines, Notice, Opened, Source
from shared.clusters.log_lines import SECOND, passed
from shared.clusters.log_positions import Position, job_key
from shared.clusters.observed import Document, condition
from shared.clusters.watch import Backoff, Changed, Deleted, Feed, Listed
from shared.errors import UnavailableError

log = structlog.get_logger()

STREAMS: Final = 50
"""Containers of one Job whose logs are streamed at the same time; the next one begins when one of them has ended."""
READINGS: Final = 8
"""Containers that have ended and whose logs are read at the same time."""
PIECES: Final = 4
"""Batches of lines that wait for the reader, each out of one read of a socket, which is some 100 KiB at the most."""
LINGER_SECONDS: Final = 45.0
"""How long pods of a Job that has ended may take to end: their grace period (30 s unless they say) and a little more."""
LISTING_SECONDS: Final = 60.0
"""How long the pods of a Job that has ended are asked for where the cluster doesn't answer."""
FIRST_PODS: Final = 200
"""Pods that stand there at the first look and whose logs are told, the newest ones."""
FOLD_ABOVE: Final = 32
FOLD_BEHIND: Final = 60
"""A position with more containers than that forgets those of old pods, seconds behind the newest: clocks of API servers may differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Drained:
    pod: PodNews


@dataclass(frozen=True, kw_only=True, slots=True)
class _Broken:
    error: BaseException


class LogFollower:
    """Follows one Job, which is known by its UID: another one of its name is not followed."""

    def __init__(
        self,
        api: KubernetesApi,
        job: Document,
        choice: Choice,
        position: Position | None = None,
        *,
        ends_with_pod: bool = False,
        streams: int = STREAMS,
        clock: Clock | None = None,
    ) -> None:
        metadata = job["metadata"]
        self._api = api
        self._namespace, self._name, self._uid = str(metadata["namespace"]), str(metadata["name"]), str(metadata["uid"])
        self._selector = pod_selector(job)
        self._choice = choice
        self._fields = f"metadata.name={choice.pod}" if choice.pod is not None else ""
        self._ends_with_pod = ends_with_pod
        self._clock = clock or SystemClock()
        ours = position is not None and position.job == job_key(self._uid)
        self._position = position if position is not None and ours else Position(job=job_key(self._uid))
        self._pods = FollowedPods()
        self._looked = asyncio.Event()
        self._job_over = False
        self._end = Ended(outcome="deleted")
        self._whole = True
        self._open: dict[str, PodNews] = {}
        self._rooms = Rooms(following=asyncio.Semaphore(streams), reading=asyncio.Semaphore(READINGS))
        self._places = asyncio.Semaphore(PIECES)
        self._queue: asyncio.Queue[Item | _Drained | _Broken] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._pod_tasks: set[asyncio.Task[None]] = set()

    @property
    def position(self) -> Position:
        """Where it stands: that of the beginning, unless it was of another Job, moved on."""
        return self._position

    def position_after(self, source: Source, at: int) -> str:
        """Move the position over the next line that was told, and give it as text."""
        marks = self._position.marks
        marks[source.key] = passed(marks.get(source.key), at)
        return self._position.encode()

    async def items(self) -> AsyncGenerator[Item, None]:
        """What there is to tell, until the end. Everything is let go when the generator is closed."""
        self._start(self._watch_job())
        self._start(self._watch_pods())
        self._start(self._conduct())
        try:
            while True:
                item = await self._queue.get()
                match item:
                    case _Broken():
                        raise item.error
                    case _Drained():
                        self._open.pop(item.pod.uid, None)
                        self._fold()
                        continue
                    case Lines() | Notice(source=Source()):
                        yield item
                        self._places.release()
                    case Ended():
                        yield item
                        return
                    case _:
                        yield item
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._queue.put_nowait(_Broken(error=error))

    async def _put(self, item: Lines | Notice) -> None:
        await self._places.acquire()
        if isinstance(item, Notice) and item.loss:
            self._whole = False
        self._queue.put_nowait(item)

    async def _watch_job(self) -> None:
        feed = Feed(self._api, JOB, lambda job: job, namespace=self._namespace, fields=f"metadata.name={self._name}")
        async with aclosing(aiter(feed)) as items:  # type: ignore[type-var] # an async generator can be closed
            async for item in items:
                match item:
                    case Listed():
                        self._see_job(next(iter(item.objects), None))
                    case Changed():
                        self._see_job(item.object)
                    case Deleted():
                        self._see_job(None)

    def _see_job(self, job: Document | None) -> None:
        if job is None or job["metadata"]["uid"] != self._uid:
            if not self._job_over:
                self._end = Ended(outcome="deleted", reason="deleted on the cluster")
            self._finish()
            return
        told: Document = condition(job.get("status") or {}, "Failed") or condition(job.get("status") or {}, "Complete") or {}
        self._end = Ended(outcome=computed_status(job).value, reason=told.get("reason"), message=told.get("message"))
        if finished(job):
            self._finish()

    def _finish(self) -> None:
        self._job_over = True
        self._pods.tell()

    async def _watch_pods(self) -> None:
        feed = Feed(self._api, POD, self._news, namespace=self._namespace, selector=self._selector, fields=self._fields)
        async with aclosing(aiter(feed)) as items:  # type: ignore[type-var] # an async generator can be closed
            async for item in items:
                match item:
                    case Listed():
                        self._see_all(item.objects)
                    case Changed():
                        self._see_pod(item.object)
                    case Deleted():
                        self._see_pod(item.object)
                        self._pods.remove(item.object.uid)

    def _news(self, pod: Document) -> PodNews | None:
        return pod_news(pod) if controller_uid(pod) == self._uid else None

    def _see_all(self, listed: list[PodNews]) -> None:
        pods = sorted(listed, key=lambda pod: (pod.made, pod.name))
        if not self._looked.is_set() and not self._position.begun:
            self._begin(pods)
        for pod in pods:
            self._see_pod(pod)
        self._pods.retain(pod.uid for pod in listed)
        self._looked.set()

    def _begin(self, pods: Sequence[PodNews]) -> None:
        """Note what stands there at the first look, the oldest first."""
        self._position.begun = pods[-1].made if pods else 1
        if self._choice.since is not None:
            self._position.since = int((self._clock.now() - self._choice.since).timestamp() * SECOND)
        if len(pods) > FIRST_PODS:
            self._position.drained = pods[-FIRST_PODS - 1].made
            left_out = sum(pod.made <= self._position.drained for pod in pods)
            self._whole = False
            self._queue.put_nowait(Notice(source=None, message=f"the logs of {left_out} older pods are left out", loss=True))

    def _see_pod(self, news: PodNews) -> None:
        new = self._pods.put(news)
        if new is None or news.made <= self._position.drained:
            return
        sources = [Source(pod=news.name, container=name) for name in news.containers if self._choice.container in (None, name)]
        for source in sources:
            self._queue.put_nowait(Opened(source=source))
        self._open[news.uid] = news
        task = self._start(self._follow_pod(new, sources))
        self._pod_tasks.add(task)
        task.add_done_callback(self._pod_tasks.discard)

    async def _follow_pod(self, pod: FollowedPod, sources: list[Source]) -> None:
        """Those that have ended one after the other, in the order in which they ran, then all others at the same time."""
        followings = [(pod.ended(source.container), self._following(pod, source)) for source in sources]
        for ended, following in followings:
            if ended:
                await following.run()
        others = [self._start(following.run()) for ended, following in followings if not ended]
        if others:
            await asyncio.wait(others)
        self._queue.put_nowait(_Drained(pod=pod.news))

    def _following(self, pod: FollowedPod, source: Source) -> ContainerFollowing:
        known = pod.news.made <= self._position.begun
        since = datetime.fromtimestamp(self._position.since // SECOND, UTC) if known and self._position.since else None
        return ContainerFollowing(
            self._api,
            self._namespace,
            source,
            pod,
            self._put,
            mark=self._position.marks.get(source.key),
            beginning=Beginning(
                tail=self._choice.tail if known else None,
                since=since.strftime("%Y-%m-%dT%H:%M:%SZ") if since else None,
                whole=not known,
            ),
            rooms=self._rooms,
        )

    async def _conduct(self) -> None:
        """Bring everything to its end when the Job has ended, or the one pod that is followed."""
        await self._looked.wait()
        while not self._job_over and not (self._ends_with_pod and self._pods.over):
            await self._pods.changed()
        if self._job_over:
            await self._look_again()
        loop = asyncio.get_running_loop()
        until = loop.time() + LINGER_SECONDS
        while not self._pods.over and loop.time() < until:
            await self._pods.changed(until - loop.time())
        self._pods.close()
        while self._pod_tasks:
            await asyncio.wait(self._pod_tasks)
        self._queue.put_nowait(replace(self._end, whole=self._whole))

    async def _look_again(self) -> None:
        """The watch of pods may be behind that of the Job, and a pod that came and ended in between must not be missed."""
        loop = asyncio.get_running_loop()
        backoff, until = Backoff(0.2, 5.0), loop.time() + LISTING_SECONDS
        query = {"labelSelector": self._selector} | ({"fieldSelector": self._fields} if self._fields else {})
        while True:
            try:
                found = [self._news(pod) async for pod in whole_list(self._api, POD.path(self._namespace), query)]
            except (UnavailableError, ApiError) as error:
                if isinstance(error, ApiError) or loop.time() >= until:
                    log.warning("pods not listed", namespace=self._namespace, job=self._name, error=str(error))
                    return
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0.0))
            else:
                self._see_all([pod for pod in found if pod is not None])
                return

    def _fold(self) -> None:
        """Let a long position forget the containers of pods that are older than every pod that isn't drained yet."""
        if len(self._position.marks) <= FOLD_ABOVE:
            return
        known = [pod.news for pod in self._pods]
        until = min([max(pod.made for pod in known) - FOLD_BEHIND, *(pod.made - 1 for pod in self._open.values())])
        old = [pod for pod in known if pod.made <= until]
        self._position.fold(until, [Source(pod=pod.name, container=name).key for pod in old for name in pod.containers])

"""The logs of an execution, kept when it ends, before its pods are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from shared.clock import Clock, SystemClock
from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.kept_logs import KeptLog, KeptLogs, LostLog, Objects, log_key, read_kept, write_index
from shared.clusters.kinds import POD
from shared.clusters.log_reading import READ_BYTES, last_bytes
from shared.clusters.pods import ENDED_PHASES, ContainerView, PodIndex, PodView, pod_view
from shared.errors import FleetError
from shared.jobs.model import Head

log = structlog.get_logger()

CONCURRENCY: Final = 8
KEEP_SECONDS: Final = 10.0
INDEX_SECONDS: Final = 1.5
"""What is left of the time for writing the index."""
_EXITS_TOLD: Final = 3
FEED_SECONDS: Final = 0.5
"""How long the feed of pods may be behind that of Jobs before the pods are asked for."""
KEPT_BYTES: Final = 16 * 1024 * 1024


class ClusterLogs:
    """`shared.jobs.ports.LogKeeper` over a cluster and a bucket. Without an index of pods, or for a job not in it, pods are listed."""

    def __init__(
        self,
        api: KubernetesApi,
        objects: Objects,
        *,
        pods: PodIndex | None = None,
        concurrency: int = CONCURRENCY,
        seconds: float = KEEP_SECONDS,
        limit: int = KEPT_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._objects = objects
        self._pods = pods
        self._free = asyncio.Semaphore(concurrency)
        self._seconds = seconds
        self._limit = limit
        self._clock = clock or SystemClock()

    async def keep(self, head: Head) -> str:
        """Save the logs of the head's execution; says in a few words what was kept. Never raises and takes a bounded time."""
        until = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(until):
                return await self._keep(head, until - INDEX_SECONDS)
        except TimeoutError:
            return f"logs unavailable: not within {self._seconds:g} s"
        except Exception as error:  # noqa: BLE001 - an execution's end is told whether or not its logs could be kept
            log.warning("logs not kept", job=head.id, execution=head.execution, error=str(error))
            return f"logs unavailable: {error}"

    async def _keep(self, head: Head, until: float) -> str:
        pods = await self._pods_of(head)
        wanted = [(pod, container) for pod in pods for container in pod.containers if container.started is not False]
        if not wanted:
            return "logs unavailable: no container has started" if pods else "logs unavailable: no pods are left"
        kept, lost = await self._keep_all(head, wanted, until)
        if not kept:
            return f"logs unavailable: {lost[0].why}"
        await write_index(self._objects, await self._index(head, kept, lost))
        note = f"logs kept: {len(kept)} container{'s' if len(kept) > 1 else ''}"
        note = f"{note}, {len(lost)} lost ({lost[0].why})" if lost else note
        return "; ".join([*_exits(pods), note])

    async def _pods_of(self, head: Head) -> Sequence[PodView]:
        if head.object is None:
            return ()
        known = await self._known(head.object.uid)
        if known:
            return known
        selector = f"{names.JOB_ID}={head.id},batch.kubernetes.io/job-name={head.object.name}"
        answer = await self._api.request("GET", POD.path(head.namespace), query={"labelSelector": selector})
        views = [view for pod in answer.get("items") or () if (view := pod_view(pod)) is not None]
        return [view for view in views if view.job_uid == head.object.uid]

    async def _known(self, job_uid: str) -> Sequence[PodView]:
        """The pods of a Job that has ended as the feed tells them, once it tells that they have ended, too.

        Jobs and pods are told by two feeds, and that of pods may be behind. It is waited for, for a moment; nothing where it doesn't come.
        """
        if self._pods is None:
            return ()
        until = asyncio.get_running_loop().time() + FEED_SECONDS
        while not (pods := self._pods.of(job_uid)) or not all(pod.phase in ENDED_PHASES for pod in pods):
            if asyncio.get_running_loop().time() >= until:
                return ()
            await asyncio.sleep(FEED_SECONDS / 20)
        return pods

    async def _keep_all(
        self, head: Head, wanted: Sequence[tuple[PodView, ContainerView]], until: float
    ) -> tuple[list[KeptLog], list[LostLog]]:
        """Keep each container's log, some at a time, until a time of the event loop."""
        tasks = [asyncio.create_task(self._keep_one(head, pod, container)) for pod, container in wanted]
        try:
            done, _ = await asyncio.wait(tasks, timeout=max(until - asyncio.get_running_loop().time(), 0.0))
        finally:
            for task in tasks:
                task.cancel()
        results = [
            task.result() if task in done else _lost(pod, container, "no time was left")
            for task, (pod, container) in zip(tasks, wanted, strict=True)
        ]
        return [one for one in results if isinstance(one, KeptLog)], [one for one in results if isinstance(one, LostLog)]

    async def _keep_one(self, head: Head, pod: PodView, container: ContainerView) -> KeptLog | LostLog:
        key = log_key(head.id, head.execution, pod.name, container.name)
        try:
            async with self._free:
                data, truncated = await self._tail(pod, container)
                await self._objects.put(key, data, content_type="text/plain; charset=utf-8")
        except (FleetError, OSError) as error:
            return _lost(pod, container, str(error))
        return KeptLog(
            pod=pod.name,
            container=container.name,
            key=key,
            bytes=len(data),
            truncated=truncated,
            exit_code=container.exit_code,
            timestamps=True,
        )

    async def _tail(self, pod: PodView, container: ContainerView) -> tuple[bytes, bool]:
        """The end of a log, and whether it is only that. `limitBytes` alone would keep its beginning."""
        query = {"container": container.name, "limitBytes": str(READ_BYTES), "timestamps": "true"}
        async with self._api.stream(f"{POD.path(pod.namespace, pod.name)}/log", query=query, silence=self._seconds) as chunks:
            return await last_bytes(chunks, self._limit)

    async def _index(self, head: Head, kept: list[KeptLog], lost: list[LostLog]) -> KeptLogs:
        """What was kept now, and what an earlier try kept of the containers that are lost by now."""
        containers = {one.key: one for one in kept}
        if lost:
            earlier = await read_kept(self._objects, head.id, head.execution)
            for one in earlier.containers if earlier else ():
                containers.setdefault(one.key, one)
            lost = [one for one in lost if log_key(head.id, head.execution, one.pod, one.container) not in containers]
        return KeptLogs(
            job_id=head.id,
            execution=head.execution,
            kept_at=self._clock.now(),
            containers=tuple(containers.values()),
            lost=tuple(lost),
        )


def _exits(pods: Sequence[PodView]) -> list[str]:
    """Which containers exited with what, of those that did not exit with 0; three of them are enough for a message."""
    bad = [
        f"container {container.name} of pod {pod.name} exited with {container.exit_code}"
        for pod in pods
        for container in pod.containers
        if container.exit_code
    ]
    return bad if len(bad) <= _EXITS_TOLD else [*bad[:_EXITS_TOLD], f"{len(bad) - _EXITS_TOLD} more exited so"]


def _lost(pod: PodView, container: ContainerView, why: str) -> LostLog:
    return LostLog(pod=pod.name, container=container.name, why=why[:200])

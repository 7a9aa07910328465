"""Logs of what runs, read from the cluster of the job's region. Implements `workers.api.core.LogReader`.

The Kubernetes client is imported when the first log is read, and one connection is kept for each region: an API that nobody asks for logs
stays small.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

from shared.clusters import names
from shared.clusters.kinds import POD
from shared.clusters.pods import PodView, pod_view
from shared.errors import ConflictError, NotFoundError
from shared.jobs.model import Head
from shared.settings import Settings
from shared.store.objects import S3Objects

if TYPE_CHECKING:
    from shared.clusters.logs import ClusterLogs


class LiveLogs:
    """Reads the logs of running executions."""

    def __init__(self, settings: Settings, objects: S3Objects | None = None) -> None:
        self._settings = settings
        self._objects = objects
        self._connections: dict[str, Any] = {}
        self._connecting = asyncio.Lock()
        self._stack = AsyncExitStack()

    async def close(self) -> None:
        """Close all connections."""
        await self._stack.aclose()

    async def read(self, head: Head, *, pod: str | None, container: str | None, tail: int | None, follow: bool) -> AsyncIterator[bytes]:
        """The log of the head's execution; of several containers one after the other, each until it ends when followed."""
        api = await self._api(head.region)
        logs = self._logs(api)
        chosen = _chosen(await self._pods(api, head), head, pod, container)
        for pod_name, container_name in chosen:
            if len(chosen) > 1:
                yield f"==> {pod_name}/{container_name} <==\n".encode()
            async with aclosing(logs.stream(head.namespace, pod_name, container_name, follow=follow, tail=tail)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    yield chunk

    async def _api(self, region: str) -> Any:
        async with self._connecting:
            if region not in self._connections:
                from shared.clusters.client import connect

                opened = connect(kubeconfig=self._settings.kubeconfig, context=region if self._settings.kubeconfig else None)
                self._connections[region] = await self._stack.enter_async_context(opened)
            return self._connections[region]

    def _logs(self, api: Any) -> ClusterLogs:
        from shared.clusters.logs import ClusterLogs

        return ClusterLogs(api, self._objects)  # type: ignore[arg-type]  # nothing is kept here

    async def _pods(self, api: Any, head: Head) -> Sequence[PodView]:
        answer = await api.request("GET", POD.path(head.namespace), query={"labelSelector": f"{names.JOB_ID}={head.id}"})
        views = [view for found in answer.get("items") or () if (view := pod_view(found)) is not None]
        return [view for view in views if head.object is not None and view.job_uid == head.object.uid]


def _chosen(pods: Sequence[PodView], head: Head, pod: str | None, container: str | None) -> list[tuple[str, str]]:
    """The containers that are meant and that have something to say, as (pod, container)."""
    everything = [(view, one) for view in sorted(pods, key=lambda view: view.name) for one in view.containers]
    named = [(view, one) for view, one in everything if pod in (None, view.name) and container in (None, one.name)]
    if not named and everything:
        there = ", ".join(f"{view.name}/{one.name}" for view, one in everything)
        raise NotFoundError("Container", f"{pod or '*'}/{container or '*'} (there are {there})")
    started = [(view.name, one.name) for view, one in named if one.started is not False]
    if not started:
        raise ConflictError(f"Job '{head.id}' is {head.state}: none of its containers has started yet")
    return started

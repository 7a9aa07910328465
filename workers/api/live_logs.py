"""Logs of what runs, read from the cluster of the job's region. Implements `workers.api.core.LogReader`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from shared.errors import ConflictError, NotFoundError
from shared.jobs.model import Head
from shared.store.objects import S3Objects
from workers.api.cluster_access import ClusterAccess

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from shared.clusters.pods import PodView


class LiveLogs:
    """Reads the logs of running executions."""

    def __init__(self, access: ClusterAccess, objects: S3Objects) -> None:
        self._access = access
        self._objects = objects

    async def read(self, head: Head, *, pod: str | None, container: str | None, tail: int | None, follow: bool) -> AsyncIterator[bytes]:
        """The log of the head's execution; of several containers one after the other, each until it ends when followed.

        Raises NotFoundError for an unknown pod or container, ConflictError while none has started, UnavailableError.
        """
        from shared.clusters.errors import ApiError
        from shared.clusters.logs import ClusterLogs

        api = await self._access.api(head.region)
        chosen = _chosen(await _pods(api, head), head, pod, container)
        logs = ClusterLogs(api, self._objects)
        for pod_name, container_name in chosen:
            if len(chosen) > 1:
                yield f"==> {pod_name}/{container_name} <==\n".encode()
            stream = logs.stream(head.namespace, pod_name, container_name, follow=follow, tail=tail)
            try:
                async with aclosing(cast("AsyncGenerator[bytes]", stream)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except ApiError as error:
                raise ConflictError(f"the log of {pod_name}/{container_name} can't be read: {error}") from error


async def _pods(api: Any, head: Head) -> Sequence[PodView]:
    from shared.clusters import names
    from shared.clusters.kinds import POD
    from shared.clusters.pods import pod_view

    answer = await api.request("GET", POD.path(head.namespace), query={"labelSelector": f"{names.JOB_ID}={head.id}"})
    views = [view for found in answer.get("items") or () if (view := pod_view(found)) is not None]
    return [view for view in views if head.object is not None and view.job_uid == head.object.uid]


def _chosen(pods: Sequence[PodView], head: Head, pod: str | None, container: str | None) -> list[tuple[str, str]]:
    """The containers that are meant and that have something to say, as (pod, container)."""
    everything = [(view, one) for view in sorted(pods, key=lambda view: view.name) for one in view.containers]
    named = [(view, one) for view, one in everything if pod in (None, view.name) and container in (None, one.name)]
    if not named and everything:
        there = ", ".join(f"{view.name}/{one.name}" for view, one in everything)
        raise NotFoundError("Container", f"{pod or '*'}/{container or '*'}", hint=f"there are {there}")
    started = [(view.name, one.name) for view, one in named if one.started is not False]
    if not started:
        raise ConflictError(f"Job '{head.id}' is {head.state}: none of its containers has started yet")
    return started

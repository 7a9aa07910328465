"""Logs of what runs, read from the cluster of the job's region. Implements `workers.api.core.LogReader`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from shared.errors import ConflictError, NotFoundError
from shared.jobs.model import Head
from workers.api.cluster_access import ClusterAccess

if TYPE_CHECKING:
    from shared.clusters.log_following import LogFollower
    from shared.clusters.log_items import Choice
    from shared.clusters.log_positions import Position
    from shared.clusters.pods import PodView

SILENCE_SECONDS: Final = 10.0
"""How long a log that is read as it stands may be silent."""


class LiveLogs:
    """Reads the logs of running executions."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access

    async def read(self, head: Head, *, pod: str | None, container: str | None, tail: int | None) -> AsyncIterator[bytes]:
        """The log of the head's execution as it stands; of several containers one after the other.

        Raises NotFoundError for an unknown pod or container, ConflictError while none has started, UnavailableError.
        """
        from shared.clusters.errors import ApiError
        from shared.clusters.kinds import POD

        api = await self._access.api(head.region)
        chosen = _chosen(await _pods(api, head), head, pod, container)
        for pod_name, container_name in chosen:
            if len(chosen) > 1:
                yield f"==> {pod_name}/{container_name} <==\n".encode()
            query = {"container": container_name} | ({"tailLines": str(tail)} if tail is not None else {})
            try:
                async with api.stream(f"{POD.path(head.namespace, pod_name)}/log", query=query, silence=SILENCE_SECONDS) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except ApiError as error:
                raise ConflictError(f"the log of {pod_name}/{container_name} can't be read: {error}") from error

    async def follow(self, head: Head, choice: Choice, position: Position | None) -> LogFollower:
        """Follow the logs of the head's object. Raises UnavailableError."""
        from shared.clusters.log_following import LogFollower

        assert head.object is not None
        api = await self._access.api(head.region, streams=True)
        metadata = {"namespace": head.namespace, "name": head.object.name, "uid": head.object.uid}
        return LogFollower(api, {"metadata": metadata}, choice, position)


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

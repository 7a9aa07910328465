"""The Events of one Job and of its pods, in a bounded number of requests.

Kubernetes keeps Events for an hour by default and counts up those that repeat. They come in two writings, of the core API and of
events.k8s.io, and the core API serves both: what the one calls `lastTimestamp` and `count` stands in the other's `series` and `eventTime`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from shared.clusters.api import KubernetesApi
from shared.clusters.job_pods import pods_of
from shared.clusters.kinds import EVENT
from shared.clusters.listing import whole_list
from shared.clusters.observed import Document, moment

SINGLE_LISTS: Final = 4
"""Up to so many pods' Events are asked for one by one, at the same time; for more, those of all pods of the namespace are read."""
MOST_READ: Final = 10_000
"""Events of a namespace's pods that are read to find those of a Job's."""
MOST_TOLD: Final = 1000
_CREATED: Final = re.compile(r"Created pod: ([a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?)")
"""What the Job controller says with `SuccessfulCreate`: all that is left of a pod that has gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterEvent:
    """One Event. Times are None where the cluster told none; `count` is how often it happened."""

    type: str
    reason: str
    message: str
    count: int
    first: datetime | None
    last: datetime | None
    component: str | None
    host: str | None
    kind: str
    name: str
    namespace: str


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEvents:
    """Events, the newest first. `left_out` says how many more there are; `unread`, that there may be more, as the namespace has so many."""

    events: Sequence[ClusterEvent]
    left_out: int = 0
    unread: bool = False


async def events_of(api: KubernetesApi, job: Document) -> JobEvents:
    """What happened to a Job and its pods, those that are gone by now among them. Raises UnavailableError, ApiError.

    Requests: the pods, the Job's Events, and then one for each pod, or of many pods one for each 500 Events of all pods of the namespace.
    """
    metadata = job["metadata"]
    about_job = _Search(api, metadata["namespace"], lambda about: about.get("uid") == metadata["uid"])
    pods, _ = await asyncio.gather(pods_of(api, job), about_job.read(f"Job,involvedObject.name={metadata['name']}"))
    # Of a pod that is gone only the name is known, of any other its UID.
    wanted: dict[str, str | None] = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
    wanted = dict.fromkeys(_created(about_job.found)) | wanted
    about_pods = _Search(api, metadata["namespace"], lambda about: wanted.get(about.get("name", ""), "") in (None, about.get("uid")))
    if len(wanted) <= SINGLE_LISTS:
        await asyncio.gather(*(about_pods.read(f"Pod,involvedObject.name={name}") for name in wanted))
    else:
        await about_pods.read("Pod")
    found = sorted(about_job.found + about_pods.found, key=_moment, reverse=True)
    return JobEvents(
        events=[_read(event) for event in found[:MOST_TOLD]],
        left_out=max(0, len(found) - MOST_TOLD),
        unread=about_job.unread or about_pods.unread,
    )


class _Search:
    """Looks through Events of a namespace for those whose object is wanted."""

    def __init__(self, api: KubernetesApi, namespace: str, wanted: Callable[[Document], bool]) -> None:
        self._api = api
        self._path = EVENT.path(namespace)
        self._wanted = wanted
        self._read = 0
        self.found: list[dict[str, Any]] = []
        self.unread = False

    async def read(self, kind: str) -> None:
        """Read the Events about objects of a kind, to which more conditions of a field selector may be added."""
        async with aclosing(whole_list(self._api, self._path, {"fieldSelector": f"involvedObject.kind={kind}"})) as events:
            async for event in events:
                if self._read == MOST_READ:
                    self.unread = True
                    return
                self._read += 1
                if self._wanted(event.get("involvedObject") or {}):
                    self.found.append(event)


def _created(events: Iterable[Document]) -> list[str]:
    """The names of the pods that the Job controller says to have made."""
    said = (_CREATED.fullmatch(event.get("message") or "") for event in events if event.get("reason") == "SuccessfulCreate")
    return [match[1] for match in said if match is not None]


def _moment(event: Document) -> tuple[datetime, int]:
    """The second in which an Event happened at last, since most components tell no more; in one second, the order of writing."""
    version = str(event["metadata"].get("resourceVersion") or "")
    last = _last(event) or datetime.min.replace(tzinfo=UTC)
    return last.replace(microsecond=0), int(version) if version.isdecimal() else 0


def _last(event: Document) -> datetime | None:
    series: Document = event.get("series") or {}
    told = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp")
    return moment(told or event["metadata"].get("creationTimestamp"))


def _read(event: Document) -> ClusterEvent:
    source: Document = event.get("source") or {}
    about: Document = event.get("involvedObject") or {}
    series: Document = event.get("series") or {}
    return ClusterEvent(
        type=event.get("type") or "",
        reason=event.get("reason") or "",
        message=event.get("message") or "",
        count=int(series.get("count") or event.get("count") or 1),
        first=moment(event.get("firstTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")),
        last=_last(event),
        component=source.get("component") or event.get("reportingComponent") or None,
        host=source.get("host") or None,
        kind=about.get("kind") or "",
        name=about.get("name") or "",
        namespace=about.get("namespace") or event["metadata"]["namespace"],
    )

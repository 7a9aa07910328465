"""The Jobs of namespaces, filtered and in an order, one page of them: what no API server answers, from lists that memory never holds whole.

Kubernetes lists by name, and selects by labels. So a page by name costs one request, which reads no further than the page; for any other
order, and to filter by status or age, every Job has to be looked at, 5,000 to a request, of which only the best are kept.
"""

from __future__ import annotations

import asyncio
import bisect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.errors import ExpiredError
from shared.clusters.job_status import ComputedStatus, computed_status
from shared.clusters.kinds import JOB
from shared.clusters.list_stream import read_page
from shared.clusters.observed import Document, moment
from shared.errors import UnavailableError

PAGE: Final = 5000
"""Jobs to a request."""
SCAN_SECONDS: Final = 60.0
"""How long the lists of one answer may take altogether."""
TRIES: Final = 3
"""How often a list is begun whose continue token expires: etcd forgets after five minutes, which a slow cluster may take."""
_CONDITION: Final = ("type", "status", "reason", "message")
_DESCENDING: Final = bytes(255 - byte for byte in range(256))


class SortField(StrEnum):
    """What Jobs can be sorted by."""

    CREATED_AT = "createdAt"
    NAME = "name"
    STATUS = "status"  # by the word, in alphabetical order


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOrder:
    """An order; Jobs that are equal in it stand by namespace and name, so that pages fit together."""

    by: SortField = SortField.CREATED_AT
    descending: bool = True

    @property
    def is_the_clusters(self) -> bool:
        """Whether an API server lists in this order."""
        return self.by is SortField.NAME and not self.descending


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFilter:
    """Which Jobs: all that fulfil every condition that is given."""

    label_selector: str = ""
    status: ComputedStatus | None = None
    created_before: datetime | None = None

    @property
    def is_the_clusters(self) -> bool:
        """Whether an API server can tell alone what fulfils it."""
        return self.status is None and self.created_before is None

    def takes(self, job: Document) -> bool:
        """Whether a Job, whose labels the API server has seen to, fulfils the rest."""
        if self.created_before is not None:
            created = moment((job.get("metadata") or {}).get("creationTimestamp"))
            if created is None or created >= self.created_before:
                return False
        return self.status is None or computed_status(job) is self.status


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Some Jobs, as `summary` tells them, of `total` that there are."""

    total: int
    jobs: list[dict[str, Any]]


async def list_jobs(
    api: KubernetesApi, namespaces: tuple[str, ...], *, which: JobFilter, order: JobOrder, offset: int, limit: int
) -> JobPage:
    """Jobs `offset` to `offset + limit` of the namespaces. Each namespace is of one moment, and a missing one has none.

    Holds `offset + limit` Jobs in memory, a kilobyte each.

    Raises UnavailableError and ApiError where a namespace can't be listed to its end: what is left out would look like what isn't there.
    """
    best = _Best(offset + limit)
    try:
        async with asyncio.timeout(SCAN_SECONDS):
            for namespace in namespaces:
                best.add_all(await _listed(api, namespace, which, order, offset + limit))
    except TimeoutError:
        raise UnavailableError(f"the Jobs of {', '.join(namespaces)} couldn't be listed within {SCAN_SECONDS:g} s") from None
    return JobPage(total=best.total, jobs=best.from_place(offset))


def summary(job: Document) -> dict[str, Any]:
    """What a list tells of a Job, and the id of the queue's job that it is of (`job_id`), if it is of one."""
    metadata: Document = job.get("metadata") or {}
    spec: Document = job.get("spec") or {}
    status: Document = job.get("status") or {}
    ours = (metadata.get("labels") or {}).get(names.MANAGED) == "true"
    return {
        "metadata": {
            **{key: metadata.get(key) for key in ("name", "namespace", "creationTimestamp", "uid")},
            "labels": metadata.get("labels") or {},
        },
        "spec": {key: spec.get(key) for key in ("parallelism", "completions", "backoffLimit")},
        "status": {
            **{key: status.get(key) or 0 for key in ("active", "succeeded", "failed")},
            **{key: status.get(key) for key in ("startTime", "completionTime")},
            "conditions": [{key: one.get(key) for key in _CONDITION} for one in status.get("conditions") or ()],
        },
        "computed_status": computed_status(job),
        "job_id": (metadata.get("annotations") or {}).get(names.JOB_ID) if ours else None,
    }


async def _listed(api: KubernetesApi, namespace: str, which: JobFilter, order: JobOrder, size: int) -> _Best:
    for _ in range(TRIES):
        try:
            return await _list_once(api, namespace, which, order, size)
        except ExpiredError as error:
            expired = error
    raise UnavailableError(f"the list of {namespace} expired {TRIES} times before its end: {expired}", retry_after=5)


async def _list_once(api: KubernetesApi, namespace: str, which: JobFilter, order: JobOrder, size: int) -> _Best:
    best = _Best(size)

    def take(job: dict[str, Any]) -> None:
        if which.takes(job):
            best.add(_key(job, order), job)

    no_further = order.is_the_clusters and which.is_the_clusters and not which.label_selector
    query = {"limit": str(min(size, PAGE) if no_further else PAGE)}
    if which.label_selector:
        query["labelSelector"] = which.label_selector
    while True:
        metadata: Mapping[str, Any] = await read_page(api, JOB.path(namespace), query, take)
        if not metadata.get("continue"):
            return best
        # An API server may leave out the count of the rest; it does where there is a selector.
        left = metadata.get("remainingItemCount")
        if no_further and left is not None and best.total >= size:
            best.total += int(left)
            return best
        query = {**query, "limit": str(PAGE), "continue": str(metadata["continue"])}


_Key = tuple[bytes, str, str]


def _key(job: Document, order: JobOrder) -> _Key:
    """By what a Job is sorted, always ascending: in a descending order, every byte counts the other way round."""
    metadata: Document = job["metadata"]
    match order.by:
        case SortField.CREATED_AT:
            text = str(metadata.get("creationTimestamp") or "")  # whole seconds in UTC, so that texts sort as times do
        case SortField.NAME:
            text = metadata["name"]
        case SortField.STATUS:
            text = computed_status(job)
    first = text.encode()
    # A text that ends sorts before a longer one; turned round, after it.
    return (first.translate(_DESCENDING) + b"\xff" if order.descending else first), metadata["namespace"], metadata["name"]


class _Best:
    """The first `size` Jobs in an order, of all that were added, and how many those were. They are kept as text, which takes least."""

    def __init__(self, size: int) -> None:
        self.total = 0
        self._size = size
        self._kept: list[tuple[_Key, bytes]] = []

    def add(self, key: _Key, job: Document) -> None:
        """Add a Job; it is dropped where enough stand before it."""
        self.total += 1
        if self._is_among_them(key):
            self._keep(key, json.dumps(summary(job)).encode())

    def add_all(self, other: _Best) -> None:
        """Add all that another has."""
        self.total += other.total
        for key, text in other._kept:
            if not self._is_among_them(key):
                return
            self._keep(key, text)

    def from_place(self, place: int) -> list[dict[str, Any]]:
        """Those from a place on, in order."""
        return [json.loads(text) for _, text in self._kept[place:]]

    def _is_among_them(self, key: _Key) -> bool:
        return len(self._kept) < self._size or key < self._kept[-1][0]

    def _keep(self, key: _Key, text: bytes) -> None:
        # In order at all times: to sort ten thousand at once would hold the event loop.
        bisect.insort(self._kept, (key, text))
        if len(self._kept) > self._size:
            self._kept.pop()

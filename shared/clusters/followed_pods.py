"""The pods of one Job as a follower of their logs knows them: kept by a watch, and waited on by whoever follows one of their containers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from shared.clusters.container_states import ContainerState, container_states
from shared.clusters.observed import Document
from shared.clusters.pods import ENDED_PHASES

_UNKNOWN = ContainerState()


@dataclass(frozen=True, kw_only=True, slots=True)
class PodNews:
    """What is kept of a pod at one moment. `made` is the second in which it was made (unix)."""

    name: str
    uid: str
    made: int
    ended: bool
    containers: Mapping[str, ContainerState]


def pod_news(pod: Document) -> PodNews:
    """What a pod's document says."""
    metadata = pod["metadata"]
    made = metadata.get("creationTimestamp")
    return PodNews(
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        made=int(datetime.fromisoformat(made).timestamp()) if made else 0,
        ended=(pod.get("status") or {}).get("phase") in ENDED_PHASES,
        containers=container_states(pod),
    )


@dataclass(kw_only=True, slots=True)
class FollowedPod:
    """A pod that is followed. `gone` when it was deleted; `closed` when nothing is waited for any more, whatever its containers do."""

    news: PodNews
    gone: bool = False
    closed: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def over(self) -> bool:
        """Whether no container of it will write any more, as far as that matters."""
        return self.news.ended or self.gone or self.closed

    def state(self, container: str) -> ContainerState:
        """How a container of it stands."""
        return self.news.containers.get(container, _UNKNOWN)

    def ended(self, container: str) -> bool:
        """Whether a container will write no more."""
        return self.over or self.state(container).ended

    def update(self, news: PodNews) -> None:
        """The pod has changed."""
        if news != self.news:
            self.news = news
            self._tell()

    def remove(self) -> None:
        """The pod is gone."""
        self.gone = True
        self._tell()

    def close(self) -> None:
        """Whoever waits for its containers needn't any longer."""
        self.closed = True
        self._tell()

    async def changed(self, seconds: float | None = None) -> None:
        """Wait for the next change, for so many seconds at the most."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class FollowedPods:
    """All pods of the Job that were ever seen, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, FollowedPod] = {}
        self._closed = False
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[FollowedPod]:
        return iter(self._pods.values())

    def put(self, news: PodNews) -> FollowedPod | None:
        """A pod is there or has changed; gives one that is new."""
        known = self._pods.get(news.uid)
        if known is not None:
            known.update(news)
            self.tell()
            return None
        new = self._pods[news.uid] = FollowedPod(news=news, closed=self._closed)
        self.tell()
        return new

    def remove(self, uid: str) -> None:
        """A pod is gone."""
        known = self._pods.get(uid)
        if known is not None and not known.gone:
            known.remove()
            self.tell()

    def retain(self, uids: Iterable[str]) -> None:
        """These are all that there are."""
        there = set(uids)
        for uid in [uid for uid in self._pods if uid not in there]:
            self.remove(uid)

    def close(self) -> None:
        """Nothing more is waited for, not even of pods that are yet to be seen."""
        self._closed = True
        for pod in self._pods.values():
            pod.close()
        self.tell()

    @property
    def over(self) -> bool:
        """Whether all have ended or are gone."""
        return all(pod.over for pod in self._pods.values())

    async def changed(self, seconds: float | None = None) -> None:
        """Wait for the next change of any, for so many seconds at the most."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def tell(self) -> None:
        """Wake whoever waits for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

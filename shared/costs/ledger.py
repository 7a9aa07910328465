"""An observer's memory of what was on its cluster: hour by hour, for as long as an hour may still change.

It is fed with what the observer's feeds tell anyway. Times come from the objects; only that something is gone without a word of when is
told by the observer's clock. So an observer that starts anew, and a second one beside it, tell the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

import structlog

from shared.costs.merging import renewed_node, renewed_pod
from shared.costs.model import NodeUsage, PodUsage, Window
from shared.costs.open_executions import ExecutionKey, OpenExecutions
from shared.costs.usage_documents import HOUR, VERSION, UsageDocument, hour_of

log = structlog.get_logger()

LATE: Final = HOUR
"""So long after an hour, news of it are still taken in: a watch that broke tells late of what has ended."""
KEPT_UNWRITTEN: Final = timedelta(hours=24)
"""Hours that can't be written for so long are given up; a bucket that is away for longer must not fill the observer's memory."""
FROZEN: Final = timedelta(seconds=90)
"""Who hasn't come to note the time for so long, wasn't watching."""

T = TypeVar("T", NodeUsage, PodUsage)


Name = str | ExecutionKey | None


class Book(Generic[T]):
    """One kind of objects by UID, as one feed tells of them. `named` is what else they are looked up by, and never changes of one."""

    def __init__(self, renewed: Callable[[T, T], T], changed: Callable[[T], None], named: Callable[[T], Name]) -> None:
        self._renewed: Callable[[T, T], T] = renewed
        self._changed: Callable[[T], None] = changed
        self._named: Callable[[T], Name] = named
        self._known: dict[str, T] = {}
        self._uids: defaultdict[Name, list[str]] = defaultdict(list)
        self.since: datetime | None = None
        """When all that there were was told for the first time."""
        self.floor = datetime.min.replace(tzinfo=UTC)
        """What ended before is no longer kept."""

    def listed(self, present: Iterable[T], *, at: datetime) -> None:
        """All that there are. What is missing has gone some time before `at`."""
        there = {one.uid: one for one in present}
        for uid in [uid for uid, one in self._known.items() if one.end is None and uid not in there]:
            self.gone(self._known[uid], at=at)
        for one in there.values():
            self.put(one)
        self.since = self.since or at

    def put(self, one: T) -> None:
        """One is new or has changed. It is there unless it says that it has ended; what it had before and doesn't tell now stays."""
        standing = self._known.get(one.uid)
        if standing == one or (standing is None and one.end is not None and one.end <= self.floor):
            return
        found = one if standing is None else self._renewed(standing, one)
        if standing is None and (name := self._named(one)) is not None:
            self._uids[name].append(one.uid)
        if found != standing:
            self._known[one.uid] = found
            self._changed(found)

    def gone(self, one: T, *, at: datetime) -> None:
        """One was deleted, at the latest at a time; what it said at last of its end holds, if it said so."""
        standing = self._known.get(one.uid)
        self.put(replace(one, end=one.end or (standing and standing.end) or max(one.start, at)))

    def during(self, start: datetime, end: datetime) -> list[T]:
        """What was there in a time; one that was there for no time, in the hour of its start."""
        return [one for one in self._known.values() if one.start < end and (one.end is None or one.end > start or one.start >= start)]

    def of(self, name: Name) -> list[T]:
        """Those of a name."""
        return [self._known[uid] for uid in self._uids.get(name, ())]

    def all(self) -> Iterable[T]:
        """All that are kept."""
        return self._known.values()

    def forget(self, before: datetime, *, but: Collection[Name] = ()) -> None:
        """What has ended before is not kept any more, except for that of some names."""
        self.floor = before
        kept = {uid: one for uid, one in self._known.items() if one.end is None or one.end > before or self._named(one) in but}
        for name in {self._named(one) for uid, one in self._known.items() if uid not in kept}:
            left = [uid for uid in self._uids.pop(name, ()) if uid in kept]
            if left:
                self._uids[name] = left
        self._known = kept

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._known)


class Ledger:
    """The books of a cluster, and which hours of them are to be written.

    `nodes`, `pods` and `others` are fed; the last, pods that aren't the fleet's, only with `all_pods`. `tick` is to be called every few
    seconds: the time from one call to the next is covered once all books have seen a list. What `executions` that haven't ended have used
    is kept for as long as they last; nodes are looked up by name, pods by execution.
    """

    def __init__(self, *, region: str, cluster: str, observer: str, all_pods: bool = False) -> None:
        self._region = region
        self._cluster = cluster
        self._observer = observer
        self._all_pods = all_pods
        self.nodes: Book[NodeUsage] = Book(renewed_node, self._mark, lambda node: node.name)
        self.pods: Book[PodUsage] = Book(renewed_pod, self._mark, _execution_of)
        self.others: Book[PodUsage] = Book(renewed_pod, self._mark, lambda _: None)
        self.executions = OpenExecutions()
        self._covered: list[Window] = []
        self._seen: datetime | None = None
        self._first: datetime | None = None
        self._pending: set[datetime] = set()

    @property
    def pending(self) -> list[datetime]:
        """The hours of which there is more to tell than was told, the oldest first."""
        return sorted(self._pending)

    @property
    def since(self) -> datetime | None:
        """When all books had seen a list; None before that."""
        found = [self.nodes.since, self.pods.since, *([self.others.since] if self._all_pods else [])]
        known = [since for since in found if since is not None]
        return max(known) if len(known) == len(found) else None

    def tick(self, now: datetime) -> None:
        """It is so late, and the books are up to date."""
        if self.since is None:
            return
        before, self._seen = self._seen, now
        if self._first is None:
            self._first = hour_of(now)
        if before is None or now <= before or now - before > FROZEN:
            return
        self._cover(before, now)
        self._give_up(hour_of(now - KEPT_UNWRITTEN))
        kept = min([*self._pending, hour_of(now - LATE)])
        if self.nodes.floor < kept and kept > self._first:
            self._forget(kept, now)
        self._covered = [span for span in self._covered if span.end > kept]

    def take(self, hour: datetime) -> UsageDocument:
        """What there is to tell of a pending hour, which then isn't pending until there is more.

        Of an hour that was not watched, it may be what was heard of it afterwards. That of the first hour tells of all that was found
        then: what had ended while nobody watched is told by it alone.
        """
        self._pending.discard(hour)
        end = hour + HOUR
        covered = [Window(*span) for one in self._covered if (span := Window(hour, end).overlap(one.start, one.end))]
        since = datetime.min.replace(tzinfo=UTC) if hour == self._first else hour
        return UsageDocument(
            version=VERSION,
            region=self._region,
            cluster=self._cluster,
            observer=self._observer,
            hour=hour,
            all_pods=self._all_pods,
            covered=covered,
            nodes=self.nodes.during(since, end),
            pods=[*self.pods.during(since, end), *self.others.during(since, end)],
        )

    def put_back(self, hour: datetime) -> None:
        """An hour that was taken could not be written."""
        self._pending.add(hour)

    def _cover(self, start: datetime, end: datetime) -> None:
        last = self._covered[-1] if self._covered else None
        if last is not None and last.end == start:
            self._covered[-1] = Window(last.start, end)
        else:
            self._covered.append(Window(start, end))
        hour = hour_of(start)
        while hour < end:
            self._pending.add(hour)
            hour += HOUR

    def _forget(self, before: datetime, now: datetime) -> None:
        """What may still be asked for stays: the pods of executions that haven't ended, and the nodes on which they were."""
        lasting = self.executions.lasting(now)
        self.pods.forget(before, but=lasting)
        self.others.forget(before)
        self.nodes.forget(before, but={pod.node for key in lasting for pod in self.pods.of(key)})

    def _mark(self, one: NodeUsage | PodUsage) -> None:
        """Its hours have more to tell. Of those before the first, that one does; those that are no longer kept stay as they are."""
        if self._first is None or self._seen is None:
            return
        for moment in (one.start, one.end):
            if moment is not None and hour_of(self.nodes.floor) <= (hour := max(self._first, hour_of(moment))) <= hour_of(self._seen):
                self._pending.add(hour)

    def _give_up(self, before: datetime) -> None:
        lost = [hour for hour in self._pending if hour < before]
        if lost:
            log.error("usage never written", hours=[hour.isoformat() for hour in sorted(lost)])
            self._pending.difference_update(lost)


def _execution_of(pod: PodUsage) -> ExecutionKey | None:
    return (pod.job_id, pod.execution) if pod.job_id is not None and pod.execution is not None else None

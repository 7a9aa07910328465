"""What must hold, checked after every single effect on the table or on a cluster.

Heads and events are read from the emulator's table, and the cluster's history is heard from the cluster itself, so nothing that is checked
has a say in the check.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from shared.clusters import names
from shared.jobs.model import Event, EventType, Head
from shared.jobs.regions import RegionStatus
from shared.jobs.states import LEGAL, State
from shared.store import counters, items, keys
from tests.simulation.dynamodb import Tables
from tests.simulation.trace import Trace
from workers.local.cluster import SimulatedCluster

LATE_CLAIM = 45.0
"""A dispatcher believes for 5 s that its region is open, and tries a claim that isn't answered for 30 s again."""
LATEST_CLAIM = 900.0
"""The same with a process that stands still for minutes, more than once."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never be."""

    invariant: str
    details: str


class Broken(Exception):  # noqa: N818 - it ends a run; the run's result is the error
    """An invariant doesn't hold."""

    def __init__(self, invariant: str, details: str) -> None:
        self.violation = Violation(invariant, details)
        super().__init__(f"{invariant}: {details}")


class TableInvariants:
    """Heads, events, indexes and counters; and what is claimed in regions that are drained.

    A claim may still come to a region after its drain, from a worker that had looked before: within `LATE_CLAIM` seconds, once nothing is
    frozen or lost on its way any more (`strict_from`); before, within `LATEST_CLAIM`.
    """

    def __init__(self, tables: Tables, layout: keys.Layout, trace: Trace, *, now: Callable[[], float], strict_from: float) -> None:
        self._now = now
        self._strict_from = strict_from
        self._drained: dict[str, float] = {}
        self._tables = tables
        self._layout = layout
        self._trace = trace
        self.heads: dict[str, Head] = {}
        self.executions: dict[str, dict[int, str]] = defaultdict(dict)
        self._events: dict[str, list[Event]] = defaultdict(list)

    def check(self, touched: list[tuple[str, str]]) -> None:
        """Check every job that a write touched, and the counters."""
        for pk, sk in touched:
            if (pk, sk) == tuple(keys.region(pk.removeprefix("REGION#")).values()):
                self._note_region(pk, sk)
        job_ids = dict.fromkeys(keys.job_id_of(pk) for pk, _ in touched if pk.startswith("JOB#"))
        for job_id in job_ids:
            self._check_job(job_id)
        if job_ids:
            self._check_counters()

    def _check_job(self, job_id: str) -> None:
        stored = self._tables.items(keys.job(job_id))
        if keys.HEAD not in stored:
            raise Broken("a job has a head", job_id)
        item = items.from_wire(stored[keys.HEAD])
        head = items.from_item(Head, item)
        before = self.heads.get(job_id)
        self.heads[job_id] = head
        if before is not None:
            self._check_step(before, head)
        elif head.state is not State.QUEUED:
            raise Broken("a job is born queued", f"{job_id}: {head.state}")
        self._trace.count(f"state: {head.state}")
        self._check_indexes(head, item)
        self._check_events(head, stored)

    def _note_region(self, pk: str, sk: str) -> None:
        status = items.from_item(RegionStatus, items.from_wire(self._tables.items(pk)[sk]))
        if not status.drained:
            self._drained.pop(status.region, None)
        else:
            self._drained.setdefault(status.region, self._now())

    def _check_claim(self, before: Head, head: Head) -> None:
        if head.fence <= before.fence:
            raise Broken("the fence grows with every claim", f"{head.id}: {before.fence} -> {head.fence}")
        since = self._drained.get(head.region)
        if since is None:
            return
        self._trace.count("operators: claims after a drain")
        late = self._now() - since
        if late > LATEST_CLAIM or (since >= self._strict_from and late > LATE_CLAIM):
            raise Broken("nothing is claimed in a region that has been drained for a while", f"{head.id}: {head.region}, {late:.0f} s")

    def _check_move(self, before: Head, head: Head) -> None:
        self._trace.count("operators: moves")
        queued = before.state is head.state is State.QUEUED
        if not (queued and head.any_region and head.fence > before.fence and head.object is None):
            raise Broken("only a queued job that may run anywhere is moved, and its fence grows", f"{before} became {head}")

    def _check_step(self, before: Head, head: Head) -> None:
        where = f"{head.id}: {before.state} -> {head.state} (revision {before.revision} -> {head.revision})"
        if head.state is not before.state:
            self._trace.count(f"transition: {before.state} -> {head.state}")
            if head.state not in LEGAL[before.state]:
                raise Broken("every transition is legal", where)
        if before.state.terminal and head != before:
            raise Broken("a job that has ended never changes", where)
        for name in ("revision", "fence", "execution", "attempts", "interruptions"):
            if getattr(head, name) < getattr(before, name):
                raise Broken(f"{name} never falls", f"{head.id}: {getattr(before, name)} -> {getattr(head, name)}")
        self._check_object(head)
        if head.state is State.CLAIMED and before.state is State.QUEUED:
            self._check_claim(before, head)
        if head.region != before.region:
            self._check_move(before, head)
        if head.state is State.PENDING and before.state is State.CLAIMED and head.fence != before.fence:
            raise Broken("a commit carries the fence of its claim", where)

    def _check_object(self, head: Head) -> None:
        if head.object is None:
            return
        uid = self.executions[head.id].setdefault(head.execution, head.object.uid)
        if uid != head.object.uid:
            raise Broken("an execution has one committed object", f"{head.id}/{head.execution}: {uid}, {head.object.uid}")

    def _check_indexes(self, head: Head, item: dict[str, Any]) -> None:
        found = {name: item[name] for name in keys.INDEX_KEYS if name in item}
        wanted = keys.index_attributes(head, self._layout)
        if found != wanted:
            raise Broken("a job stands in the indexes of its state and no other", f"{head.id}: {found} instead of {wanted}")

    def _check_events(self, head: Head, stored: dict[str, Any]) -> None:
        events = [items.from_item(Event, items.from_wire(stored[key])) for key in sorted(stored) if key.startswith("EVENT#")]
        known = self._events[head.id]
        if events[: len(known)] != known:
            raise Broken("an event that is written never changes", f"{head.id}: {known} became {events}")
        self._events[head.id] = events
        if [event.number for event in events] != list(range(1, head.revision + 1)):
            raise Broken("events are gapless from 1 to the head's revision", f"{head.id}: {[e.number for e in events]}, r{head.revision}")
        for event in events[len(known) :]:
            self._trace.count(f"event: {event.type}")
        for earlier, later in pairwise(events):
            if later.state is not earlier.state and later.state not in LEGAL[earlier.state]:
                raise Broken("events are in legal order", f"{head.id}: {earlier.state} -> {later.state} at {later.number}")
        told = events[-1].state
        silently_claimed = head.state is State.CLAIMED and told is State.QUEUED
        if told is not head.state and not silently_claimed:
            raise Broken("the newest event tells the head's state", f"{head.id}: {told}, {head.state}")
        if events[0].type is not EventType.SUBMITTED:
            raise Broken("the first event is the submission", f"{head.id}: {events[0].type}")

    def _check_counters(self) -> None:
        wanted = Counter((head.region, counters.counted_as(head)) for head in self.heads.values())
        found: Counter[tuple[str, str]] = Counter()
        for pk in self._tables.partitions():
            if pk.startswith("COUNT#"):
                region = pk.removeprefix("COUNT#").rpartition("#")[0]
                for name, value in self._tables.items(pk)["COUNT"].items():
                    if name not in {"pk", "sk"}:
                        found[region, name] += int(value["N"])
        if +found != wanted or any(value < 0 for value in found.values()):
            raise Broken("the counters count the heads", f"{dict(found)} instead of {dict(wanted)}")


class ClusterInvariants:
    """What is released and what runs, on one region's cluster. It listens to every write there."""

    def __init__(self, cluster: SimulatedCluster, table: TableInvariants, trace: Trace, report: Callable[[Violation], None]) -> None:
        self._report = report
        self._table = table
        self._trace = trace
        self._cluster = cluster
        self._released: dict[tuple[str, int], str] = {}
        self._jobs: dict[str, tuple[str, int]] = {}
        self._pods: dict[str, str] = {}
        self.starts: Counter[tuple[str, int]] = Counter()
        cluster._store.on_every_change(self._hear)

    def unfinished(self) -> list[str]:
        """The fleet's objects that have not ended."""
        return [
            f"{entry.name} (suspend={entry.obj['spec'].get('suspend')})"
            for entry in self._cluster._store._shelf(self._cluster._world.jobs).objects.values()
            if entry.uid in self._jobs and not _ended(entry.obj)
        ]

    def _hear(self, change: Any) -> None:
        kind = change.new.kind.kind
        try:
            if kind == "Job":
                self._hear_of_job(change)
            elif kind == "Pod":
                self._hear_of_pod(change)
        except Broken as broken:  # reported, not raised: the cluster's own controllers must not be stopped in their midst
            self._report(broken.violation)

    def _hear_of_job(self, change: Any) -> None:
        obj = change.new.obj
        metadata = obj["metadata"]
        annotations = metadata.get("annotations") or {}
        if names.JOB_ID not in annotations:
            return
        uid, job_id, execution = metadata["uid"], annotations[names.JOB_ID], int(annotations[names.EXECUTION])
        self._jobs[uid] = (job_id, execution)
        if change.old is None:
            self._trace.step("  cluster", f"created: {metadata['name']} ({uid[:8]})")
        held = obj["spec"].get("suspend") is True
        was_held = change.old is None or change.old.obj["spec"].get("suspend") is True
        if change.type == "DELETED" or held or not was_held or _ended(obj):
            return
        self._trace.step("  cluster", f"released: {metadata['name']} ({uid[:8]})")
        self._check_release(uid, job_id, execution)

    def _check_release(self, uid: str, job_id: str, execution: int) -> None:
        earlier = self._released.setdefault((job_id, execution), uid)
        if earlier != uid:
            raise Broken("one released object per execution, for ever", f"{job_id}/{execution}: {earlier} and {uid}")
        head = self._table.heads.get(job_id)
        committed = self._table.executions.get(job_id, {}).get(execution)
        if committed != uid:
            raise Broken("only the committed object is released", f"{job_id}/{execution}: committed {committed}, released {uid}")
        if head is None or head.execution != execution:
            raise Broken("only the head's execution is released", f"{job_id}/{execution}: the head is at {head and head.execution}")
        if head.state.terminal:
            raise Broken("nothing of a job that has ended is released", f"{job_id}/{execution}: {head.state}")
        for pod, owner in self._pods.items():
            if owner != uid and self._jobs.get(owner, ("", 0))[0] == job_id:
                raise Broken("executions of a job never overlap", f"{job_id}: pod {pod} of {self._jobs[owner]} while {execution} starts")

    def _hear_of_pod(self, change: Any) -> None:
        obj = change.new.obj
        uid = obj["metadata"]["uid"]
        phase = obj.get("status", {}).get("phase")
        if change.type == "DELETED" or phase in {"Succeeded", "Failed"}:
            self._pods.pop(uid, None)
            return
        owner = next((one["uid"] for one in obj["metadata"].get("ownerReferences") or () if one.get("controller")), None)
        if owner is None or owner not in self._jobs or uid in self._pods:
            return
        self._pods[uid] = owner
        job_id, execution = self._jobs[owner]
        self._trace.step("  cluster", f"pod of {job_id[-6:]}/{execution} ({owner[:8]})")
        self.starts[job_id, execution] += 1
        if self._released.get((job_id, execution)) != owner:
            raise Broken("only a released object has pods", f"{job_id}/{execution}: {owner}")


def _ended(job: dict[str, Any]) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions)

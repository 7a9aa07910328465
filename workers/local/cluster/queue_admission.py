"""Kueue, as far as a Job can tell: one that names a local queue is kept suspended until the queue's quota has room for all its pods.

As with Kueue's default BestEffortFIFO, the oldest goes first, and one that does not fit holds up none that does. A queue that isn't
there admits nothing. See https://kueue.sigs.k8s.io/docs/tasks/run/jobs/ for what a user sees of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from workers.local.cluster.agenda import Timer
from workers.local.cluster.objects import Object, holds
from workers.local.cluster.resources import Amounts, add, amounts, pod_requests
from workers.local.cluster.store import DELETED, Change, Entry
from workers.local.cluster.world import World

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_COMPONENT = "kueue-job-controller"

_Wish = tuple[str, tuple[tuple[str, int], ...]]


def _queue_of(job: Entry) -> str | None:
    name: str | None = (job.obj["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    return name


class QueueAdmission:
    """Suspends and admits. `quotas` maps the name of each local queue to what may run at once, such as `{"nvidia.com/gpu": "8"}`."""

    def __init__(self, world: World, quotas: Mapping[str, Mapping[str, str]]) -> None:
        self._world = world
        self._store = world.store
        self._free = {queue: amounts(quota) for queue, quota in quotas.items()}
        self._waiting: dict[_Wish, dict[str, int]] = {}
        self._wish_of: dict[str, _Wish] = {}
        self._admitted: dict[str, _Wish] = {}
        self._arrivals = 0
        self._planned: Timer | None = None
        self._store.on_change(world.jobs, self._see)

    def _see(self, change: Change) -> None:
        job = change.new
        queue = _queue_of(job)
        if queue is None and job.uid not in self._admitted and job.uid not in self._wish_of:
            return
        status = job.obj.get("status") or {}
        over = change.type == DELETED or holds(status, "Complete") or holds(status, "Failed")
        suspended = bool(job.obj["spec"].get("suspend"))
        if over or queue is None or "deletionTimestamp" in job.obj["metadata"]:
            self._leave(job.uid)
        elif suspended:
            # Its quota is free again only when its pods have gone.
            if job.uid in self._admitted and not (status.get("active") or status.get("terminating")):
                self._leave(job.uid)
            if job.uid not in self._admitted and job.uid not in self._wish_of:
                self._enqueue(job, queue)
        elif job.uid not in self._admitted:
            self._world.agenda.after(0.0, lambda: self.suspend(job.uid))

    def suspend(self, uid: str) -> None:
        """Stop a Job that Kueue has in hand: one that runs without being admitted, or one that is preempted."""
        self._set_suspended(uid, suspended=True)

    def _set_suspended(self, uid: str, *, suspended: bool) -> Entry | None:
        job = self._store.by_uid(uid)
        if job is None or bool(job.obj["spec"].get("suspend")) is suspended:
            return None
        metadata = {**job.obj["metadata"], "generation": job.obj["metadata"].get("generation", 0) + 1}
        return self._store.replace(job, {**job.obj, "metadata": metadata, "spec": {**job.obj["spec"], "suspend": suspended}})

    def _enqueue(self, job: Entry, queue: str) -> None:
        wish = (queue, tuple(sorted(self._needs(job.obj["spec"], queue).items())))
        self._arrivals += 1
        self._waiting.setdefault(wish, {})[job.uid] = self._arrivals
        self._wish_of[job.uid] = wish
        self._plan()

    def _needs(self, spec: Object, queue: str) -> Amounts:
        """What all pods of a Job take of those resources that the queue counts."""
        pods = spec["parallelism"] if spec.get("completions") is None else min(spec["parallelism"], spec["completions"])
        counted = self._free.get(queue, {})
        requests = pod_requests(spec["template"]["spec"])
        return {resource: number * pods for resource, number in requests.items() if resource in counted}

    def _leave(self, uid: str) -> None:
        wish = self._wish_of.pop(uid, None)
        if wish is not None:
            del self._waiting[wish][uid]
            if not self._waiting[wish]:
                del self._waiting[wish]
        held = self._admitted.pop(uid, None)
        if held is not None:
            add(self._free[held[0]], dict(held[1]))
            self._plan()

    def _plan(self) -> None:
        if self._planned is None:
            self._planned = self._world.agenda.after(self._world.pace.controller_delay, self._run)

    def _run(self) -> None:
        self._planned = None
        wishes = set(self._waiting)
        while wishes:
            wish = min(wishes, key=lambda each: next(iter(self._waiting[each].values())))
            if not self._fits(wish):
                wishes.discard(wish)
                continue
            self._admit(next(iter(self._waiting[wish])), wish)
            if wish not in self._waiting:
                wishes.discard(wish)

    def _fits(self, wish: _Wish) -> bool:
        queue, needs = wish
        free = self._free.get(queue)
        return free is not None and all(free[resource] >= number for resource, number in needs)

    def _admit(self, uid: str, wish: _Wish) -> None:
        self._leave(uid)
        self._admitted[uid] = wish
        add(self._free[wish[0]], {resource: -number for resource, number in wish[1]})
        job = self._set_suspended(uid, suspended=False)
        if job is not None:
            message = f"Admitted by clusterQueue {wish[0]}"
            self._world.events.record(job, reason="Started", message=message, component=_COMPONENT)

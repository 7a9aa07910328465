"""Places pods on nodes by selector, affinity, tolerations and what is free.

Pods that want the same are one class with one queue: when something becomes free only the first of each class is tried, so that
five thousand waiting pods cost no more than one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from workers.local.cluster.agenda import Timer
from workers.local.cluster.event_recorder import SCHEDULER
from workers.local.cluster.objects import Object, find_condition, with_condition
from workers.local.cluster.placement import selects, untolerated
from workers.local.cluster.resources import Amounts, add, amounts, pod_requests
from workers.local.cluster.store import DELETED, Change, Entry
from workers.local.cluster.world import World

_REMEMBERED_CLASSES = 1000
_RETRY = 300.0
"""Seconds after which pods are looked at again for which nothing has changed (kube-scheduler, podMaxInUnschedulablePodsDuration)."""


class _Node:
    """What the scheduler remembers of a node."""

    __slots__ = ("allocatable", "entry", "used")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.allocatable = amounts(entry.obj["status"].get("allocatable"))
        self.used: Amounts = {}

    def lacks(self, requests: Amounts) -> list[str]:
        """The resources of which too little is free."""
        used, allocatable = self.used, self.allocatable
        return [name for name, number in requests.items() if used.get(name, 0) + number > allocatable.get(name, 0)]


class _PodClass:
    """Pods with equal wishes, in the order in which they came."""

    __slots__ = ("requests", "spec", "suitable", "waiting")

    def __init__(self, spec: Object) -> None:
        self.spec = spec
        self.requests = pod_requests(spec)
        self.waiting: dict[str, int] = {}
        self.suitable: list[_Node] | None = None


class Scheduler:
    """Keeps account of every node and gives waiting pods their place."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        self._nodes: dict[str, _Node] = {}
        self._classes: dict[str, _PodClass] = {}
        self._class_of: dict[str, str] = {}
        self._placed: dict[str, tuple[str, Amounts]] = {}
        self._arrivals = 0
        self._planned: Timer | None = None
        self._retry: Timer | None = None
        self._store.on_change(world.nodes, self._see_node)
        self._store.on_change(world.pods, self._see_pod)

    def _see_node(self, change: Change) -> None:
        name = change.new.name
        if change.type == DELETED:
            self._nodes.pop(name, None)
        else:
            node = _Node(change.new)
            if name in self._nodes:
                node.used = self._nodes[name].used
            else:
                for place, requests in self._placed.values():
                    if place == name:
                        add(node.used, requests)
            self._nodes[name] = node
        for pod_class in self._classes.values():
            pod_class.suitable = None
        self._plan()

    def _see_pod(self, change: Change) -> None:
        pod = change.new
        phase = pod.obj["status"].get("phase")
        if change.type == DELETED or phase in ("Succeeded", "Failed"):
            self._forget(pod.uid)
            return
        spec = pod.obj["spec"]
        if spec.get("nodeName"):
            if pod.uid not in self._placed:
                self._take(pod.uid, spec["nodeName"], pod_requests(spec))
        elif pod.uid not in self._class_of and "deletionTimestamp" not in pod.obj["metadata"]:
            if spec.get("schedulingGates"):
                if change.old is None:
                    self._say(pod, reason="SchedulingGated", message="Scheduling is blocked due to non-empty scheduling gates")
            else:
                self._enqueue(pod)

    def _enqueue(self, pod: Entry) -> None:
        spec = pod.obj["spec"]
        wishes = [spec.get(field) for field in ("nodeSelector", "affinity", "tolerations", "overhead")]
        sizes = [[c.get("resources") for c in spec.get(group) or ()] for group in ("containers", "initContainers")]
        key = json.dumps([wishes, sizes], sort_keys=True)
        pod_class = self._classes.get(key)
        if pod_class is None:
            pod_class = self._classes[key] = _PodClass(spec)
        self._arrivals += 1
        pod_class.waiting[pod.uid] = self._arrivals
        self._class_of[pod.uid] = key
        self._plan()

    def _take(self, uid: str, node: str, requests: Amounts) -> None:
        self._placed[uid] = (node, requests)
        if node in self._nodes:
            add(self._nodes[node].used, requests)

    def _forget(self, uid: str) -> None:
        key = self._class_of.pop(uid, None)
        if key is not None:
            del self._classes[key].waiting[uid]
            self._retire(key)
        placed = self._placed.pop(uid, None)
        if placed is not None:
            node = self._nodes.get(placed[0])
            if node is not None:
                add(node.used, {name: -number for name, number in placed[1].items()})
            self._plan()

    def _retire(self, key: str) -> None:
        """Drop a class that nobody is in, once there are many; it is remembered for the nodes that suit it."""
        if not self._classes[key].waiting and len(self._classes) > _REMEMBERED_CLASSES:
            del self._classes[key]

    def _plan(self) -> None:
        if self._planned is None:
            self._planned = self._world.agenda.after(self._world.pace.controller_delay, self._run)

    def _run(self) -> None:
        self._planned = None
        self._place()
        if self._retry is None and self._class_of:
            self._retry = self._world.agenda.after(_RETRY, self._tell_again)

    def _place(self) -> None:
        """Try the first pod of every class, the oldest first, until no class gets a place."""
        open_classes = {key: pod_class for key, pod_class in self._classes.items() if pod_class.waiting}
        while open_classes:
            key, pod_class = min(open_classes.items(), key=lambda item: next(iter(item[1].waiting.values())))
            node = self._choose(pod_class)
            if node is None:
                self._explain(pod_class)
                del open_classes[key]
                continue
            uid = next(iter(pod_class.waiting))
            del pod_class.waiting[uid]
            del self._class_of[uid]
            self._bind(uid, node, pod_class.requests)
            if not pod_class.waiting:
                del open_classes[key]
                self._retire(key)

    def _suitable(self, pod_class: _PodClass) -> list[_Node]:
        if pod_class.suitable is None:
            pod_class.suitable = [node for node in self._nodes.values() if self._obstacle(pod_class.spec, node) is None]
        return pod_class.suitable

    def _obstacle(self, spec: Object, node: _Node) -> str | None:
        """Why a node will not do whatever is free on it, in the words of the scheduler."""
        node_spec, metadata = node.entry.obj.get("spec") or {}, node.entry.obj["metadata"]
        if node_spec.get("unschedulable"):
            return "node(s) were unschedulable"
        if not selects(spec, node.entry.name, metadata.get("labels") or {}):
            return "node(s) didn't match Pod's node affinity/selector"
        taint = untolerated(spec, node_spec.get("taints") or ())
        return None if taint is None else f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"

    def _choose(self, pod_class: _PodClass) -> _Node | None:
        """The suitable node with the fewest pods; of equals the first by name."""
        requests = pod_class.requests
        fitting = [node for node in self._suitable(pod_class) if not node.lacks(requests)]
        return min(fitting, key=lambda node: (node.used.get("pods", 0), node.entry.name), default=None)

    def _bind(self, uid: str, node: _Node, requests: Amounts) -> None:
        pod = self._store.by_uid(uid)
        if pod is None:
            return
        self._take(uid, node.entry.name, requests)
        now = self._world.timestamp
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        status = pod.obj["status"]
        bound = self._store.replace(
            pod,
            {
                **pod.obj,
                "spec": {**pod.obj["spec"], "nodeName": node.entry.name},
                "status": {**status, "conditions": with_condition(status.get("conditions") or (), scheduled)},
            },
        )
        message = f"Successfully assigned {bound.namespace}/{bound.name} to {node.entry.name}"
        self._world.events.record(bound, reason="Scheduled", message=message, component=SCHEDULER)

    def _explain(self, pod_class: _PodClass) -> None:
        """Tell each pod that has not heard it yet that there is no place for it; those that have stand at the front."""
        message: str | None = None
        for uid in reversed(pod_class.waiting):
            pod = self._store.by_uid(uid)
            told = find_condition(pod.obj["status"], "PodScheduled") if pod is not None else None
            if pod is None or (told is not None and told.get("reason") == "Unschedulable"):
                break
            message = message or self._why_not(pod_class)
            self._fail(pod, message)

    def _tell_again(self) -> None:
        """Of the pods that still wait, tell one of each class; what can be placed would have been when it became so."""
        self._retry = None
        for pod_class in [pod_class for pod_class in self._classes.values() if pod_class.waiting]:
            pod = self._store.by_uid(next(iter(pod_class.waiting)))
            if pod is not None:
                self._fail(pod, self._why_not(pod_class))
        self._plan()

    def _fail(self, pod: Entry, message: str) -> None:
        self._say(pod, reason="Unschedulable", message=message)
        self._world.events.record(pod, warning=True, reason="FailedScheduling", message=message, component=SCHEDULER)

    def _why_not(self, pod_class: _PodClass) -> str:
        reasons: Counter[str] = Counter()
        for node in self._nodes.values():
            reasons.update(self._reasons(pod_class, node))
        listed = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        total = len(self._nodes)
        return f"0/{total} nodes are available: {listed or 'no nodes'}. preemption: 0/{total} nodes are available."

    def _reasons(self, pod_class: _PodClass, node: _Node) -> Iterator[str]:
        obstacle = self._obstacle(pod_class.spec, node)
        if obstacle is not None:
            yield obstacle
            return
        for resource in node.lacks(pod_class.requests):
            yield "Too many pods" if resource == "pods" else f"Insufficient {resource}"

    def _say(self, pod: Entry, *, reason: str, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": self._world.timestamp,
        }
        status = pod.obj["status"]
        told = find_condition(status, "PodScheduled")
        if told is not None and (told.get("reason"), told.get("message")) == (reason, message):
            return
        conditions = with_condition(status.get("conditions") or (), condition)
        self._store.replace(pod, {**pod.obj, "status": {**status, "conditions": conditions}})

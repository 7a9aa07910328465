"""Deployments, StatefulSets and DaemonSets: they report that all is there. Their pods are not simulated."""

from __future__ import annotations

from workers.local.cluster.objects import Object
from workers.local.cluster.store import DELETED, Change
from workers.local.cluster.world import World

_KINDS = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")


class Workloads:
    """Fills in the status of what serves without end."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._store = world.store
        for kind in _KINDS:
            self._store.on_change(world.catalogue.core(kind), self._see)

    def _see(self, change: Change) -> None:
        entry = change.new
        if change.type == DELETED or (change.old is not None and change.old.obj.get("spec") is entry.obj.get("spec")):
            return
        self._world.agenda.after(self._world.pace.container_start, lambda: self._report(entry.uid))

    def _report(self, uid: str) -> None:
        entry = self._store.by_uid(uid)
        if entry is None:
            return
        status = {"observedGeneration": entry.obj["metadata"].get("generation", 1)}
        if entry.kind.kind == "DaemonSet":
            nodes = self._store.count(self._world.nodes)
            for field in (
                "currentNumberScheduled",
                "desiredNumberScheduled",
                "numberReady",
                "numberAvailable",
                "updatedNumberScheduled",
            ):
                status[field] = nodes
            status["numberMisscheduled"] = 0
        else:
            replicas = (entry.obj.get("spec") or {}).get("replicas", 1)
            for field in ("replicas", "readyReplicas", "availableReplicas"):
                status[field] = replicas
            if entry.kind.kind != "ReplicaSet":
                status["updatedReplicas"] = replicas
        self._store.replace(entry, {**entry.obj, "status": {**status, **self._conditions(entry.kind.kind)}})

    def _conditions(self, kind: str) -> Object:
        if kind != "Deployment":
            return {}
        now = self._world.timestamp
        times = {"lastUpdateTime": now, "lastTransitionTime": now}
        available = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", **times}
        progressing = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", **times}
        return {"conditions": [available, progressing]}

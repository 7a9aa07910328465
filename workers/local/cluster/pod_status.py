"""The status of a pod in each moment of its life, as the kubelet reports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.local.cluster.objects import Object, with_condition

# What a container that is told to end exits with: 128 + SIGTERM.
TERMINATED = 143


def _container(container: Object, *, state: Object, ready: bool, restarts: int, last: Object) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"{container['image']}@simulated",
        "state": state,
        "lastState": last,
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
    }


def _conditions(old: Sequence[Object], values: Mapping[str, tuple[str, str]], now: str) -> list[Object]:
    conditions = list(old)
    for kind, (status, reason) in values.items():
        new: Object = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": now}
        if reason:
            new["reason"] = reason
        conditions = with_condition(conditions, new)
    return conditions


def _init_statuses(spec: Object, now: str) -> dict[str, Any]:
    """Init containers have always just ended well: what they do is not simulated."""
    if not spec.get("initContainers"):
        return {}
    state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    statuses = [_container(item, state=state, ready=True, restarts=0, last={}) for item in spec["initContainers"]]
    return {"initContainerStatuses": statuses}


def creating(pod: Object, *, host: str, now: str) -> Object:
    """On a node, with containers that are being created."""
    state = {"waiting": {"reason": "ContainerCreating"}}
    containers = pod["spec"]["containers"]
    ready = {
        "Initialized": ("True", ""),
        "Ready": ("False", "ContainersNotReady"),
        "ContainersReady": ("False", "ContainersNotReady"),
    }
    return {
        **pod["status"],
        "phase": "Pending",
        "hostIP": host,
        "startTime": now,
        "conditions": _conditions(pod["status"].get("conditions") or (), ready, now),
        "containerStatuses": [_container(item, state=state, ready=False, restarts=0, last={}) for item in containers],
    }


def running(pod: Object, *, address: str, restarts: int, now: str) -> Object:
    """With every container running and ready."""
    status = pod["status"]
    before = status.get("containerStatuses") or [{}] * len(pod["spec"]["containers"])
    state = {"running": {"startedAt": now}}
    ready = {"Initialized": ("True", ""), "Ready": ("True", ""), "ContainersReady": ("True", "")}
    return {
        **status,
        **_init_statuses(pod["spec"], now),
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": status.get("startTime") or now,
        "conditions": _conditions(status.get("conditions") or (), ready, now),
        "containerStatuses": [
            _container(item, state=state, ready=True, restarts=restarts, last=old.get("lastState") or {})
            for item, old in zip(pod["spec"]["containers"], before, strict=True)
        ],
    }


def _ended_state(code: int, started: str, now: str) -> Object:
    reason = "Completed" if code == 0 else "Error"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now}}


def ended(pod: Object, *, codes: Sequence[int], started: str, restarts: int, now: str) -> Object:
    """With every container ended, one code for each; the phase follows from the codes."""
    succeeded = not any(codes)
    reason = "PodCompleted" if succeeded else "PodFailed"
    ready = {
        "Initialized": ("True", reason if succeeded else ""),
        "Ready": ("False", reason),
        "ContainersReady": ("False", reason),
    }
    status = pod["status"]
    before = status.get("containerStatuses") or [{}] * len(codes)
    return {
        **status,
        "phase": "Succeeded" if succeeded else "Failed",
        "conditions": _conditions(status.get("conditions") or (), ready, now),
        "containerStatuses": [
            _container(item, state=_ended_state(code, started, now), ready=False, restarts=restarts, last=old.get("lastState") or {})
            for item, code, old in zip(pod["spec"]["containers"], codes, before, strict=True)
        ],
    }


def backing_off(pod: Object, *, codes: Sequence[int], started: str, restarts: int, now: str) -> Object:
    """Between two runs of the containers of a pod that restarts them."""
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    ready = {"Ready": ("False", "ContainersNotReady"), "ContainersReady": ("False", "ContainersNotReady")}
    status = pod["status"]
    return {
        **status,
        "conditions": _conditions(status.get("conditions") or (), ready, now),
        "containerStatuses": [
            _container(item, state=state, ready=False, restarts=restarts, last=_ended_state(code, started, now))
            for item, code in zip(pod["spec"]["containers"], codes, strict=True)
        ],
    }


def disrupted(status: Object, *, reason: str, message: str, now: str) -> Object:
    """With the condition that tells an interruption from a failure of the pod's own."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    return {**status, "conditions": with_condition(status.get("conditions") or (), condition)}

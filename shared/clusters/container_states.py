"""How the containers of a pod stand, as far as their logs are concerned: whether there is one, whether it will grow, and why not yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.clusters.observed import Document, condition
from shared.clusters.pods import ENDED_PHASES

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
"""Annotation of a pod: whose log is meant where nobody says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerState:
    """One container: whether it ever ran, whether it does now, whether it never will again, how often it was restarted, why it waits."""

    started: bool = False
    running: bool = False
    ended: bool = False
    restarts: int = 0
    waits: str | None = None


def containers_of(pod: Document) -> list[str]:
    """The names of its main containers."""
    return [str(one["name"]) for one in (pod.get("spec") or {}).get("containers") or ()]


def init_containers_of(pod: Document) -> list[str]:
    """The names of its init containers, in the order in which they run."""
    return [str(one["name"]) for one in (pod.get("spec") or {}).get("initContainers") or ()]


def default_container(pod: Document) -> str:
    """The container that is meant where none is named: that of the annotation, or the first one."""
    named = ((pod.get("metadata") or {}).get("annotations") or {}).get(DEFAULT_CONTAINER)
    there = containers_of(pod)
    return str(named) if named in there or named in init_containers_of(pod) else there[0]


def container_states(pod: Document) -> dict[str, ContainerState]:
    """Every container of a pod by its name, init containers first."""
    spec: Document = pod.get("spec") or {}
    status: Document = pod.get("status") or {}
    over = status.get("phase") in ENDED_PHASES
    known = {one["name"]: one for part in ("initContainerStatuses", "containerStatuses") for one in status.get(part) or ()}
    policy = str(spec.get("restartPolicy") or "Always")
    states = {}
    for init, declared in [(True, one) for one in spec.get("initContainers") or ()] + [
        (False, one) for one in spec.get("containers") or ()
    ]:
        restart = declared.get("restartPolicy") or ("OnFailure" if init and policy == "Always" else policy)
        name = str(declared["name"])
        states[name] = _state(known.get(name) or {}, restart=str(restart), over=over)
    return states


def _state(status: Document, *, restart: str, over: bool) -> ContainerState:
    state: Document = status.get("state") or {}
    before: Document = status.get("lastState") or {}
    restarts = int(status.get("restartCount") or 0)
    terminated: Document | None = state.get("terminated")
    for_good = terminated is not None and (restart == "Never" or (restart == "OnFailure" and terminated.get("exitCode") == 0))
    return ContainerState(
        started="running" in state or terminated is not None or "terminated" in before or restarts > 0,
        running="running" in state and not over,
        ended=over or for_good,
        restarts=restarts,
        waits=_words(state["waiting"]) if state.get("waiting") else None,
    )


def why_pending(pod: Document) -> str:
    """Why no container of a pod runs yet, in the words of the scheduler or the kubelet."""
    status: Document = pod.get("status") or {}
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return _words(one)
    for part in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(part) or ():
            waiting = (one.get("state") or {}).get("waiting")
            if waiting and waiting.get("reason") != "PodInitializing":
                return f"container {one['name']}: {_words(waiting)}"
            if part == "initContainerStatuses" and "running" in (one.get("state") or {}):
                return f"init container {one['name']} runs"
    if condition(status, "PodScheduled"):
        return "its containers are being created"
    return "it waits for the scheduler"


def _words(told: Document) -> str:
    """Reason and message of a condition or a state."""
    return ": ".join(str(part) for part in (told.get("reason"), told.get("message")) if part) or "no reason is told"

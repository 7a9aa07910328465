"""The pods of the fleet's Jobs, kept from a feed, so that nobody has to ask the cluster for what has been told already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from shared.clusters import names
from shared.clusters.nodes import gpus_of
from shared.clusters.observed import CONTROLLER_UID, disruption
from shared.costs.model import PodUsage

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerView:
    """One container of a pod. `started` is None where its status isn't known, `exit_code` None while it hasn't ended."""

    name: str
    started: bool | None = None
    exit_code: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PodView:
    """What is kept of a pod. `job_uid` is the UID of the Job that it was made for; `gpus` is what its containers ask for.

    `usage` is None before the pod has a place, and where the feed wasn't asked for it.
    """

    namespace: str
    name: str
    uid: str
    job_uid: str
    job_id: str
    phase: str
    node: str | None = None
    gpus: int = 0
    containers: tuple[ContainerView, ...] = ()
    disrupted: str | None = None
    unschedulable: str | None = None
    deleting: bool = False
    usage: PodUsage | None = None

    @property
    def running(self) -> bool:
        """Whether its containers run, as far as is known."""
        return self.phase == "Running"

    @property
    def holds_gpus(self) -> bool:
        """Whether it has a place on a node and has not ended."""
        return self.node is not None and self.phase not in ENDED_PHASES


def pod_view(pod: Mapping[str, Any], *, usage: PodUsage | None = None) -> PodView | None:
    """What is to be kept of a pod, with what it uses where that was read too; None for one that was made for no Job.

    A Job that is deleted without its pods leaves them without an owner; their label still says whose they were.
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    labels = metadata.get("labels") or {}
    owners = (one["uid"] for one in metadata.get("ownerReferences") or () if one.get("controller") and one.get("kind") == "Job")
    job_uid = labels.get(CONTROLLER_UID) or next(owners, None)
    if job_uid is None:
        return None
    return PodView(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        job_uid=job_uid,
        job_id=str(labels.get(names.JOB_ID, "")),
        phase=status.get("phase") or "Pending",
        node=spec.get("nodeName"),
        gpus=gpus_of_pod(spec),
        containers=_containers(spec, status),
        disrupted=disruption(pod),
        unschedulable=_unschedulable(status),
        deleting=metadata.get("deletionTimestamp") is not None,
        usage=usage,
    )


def _unschedulable(status: Mapping[str, Any]) -> str | None:
    """Why the scheduler finds no place for a pod, in its own words; None for one that has a place or was not looked at yet."""
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False" and one.get("reason") == "Unschedulable":
            return str(one.get("message") or "no node fits")
    return None


def gpus_of_pod(spec: Mapping[str, Any]) -> int:
    """The GPUs that a pod holds: its containers together, or the largest of its init containers.

    GPUs are asked for in limits; a request must be equal to them.
    https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/#using-device-plugins
    """
    together = sum(_limits(container) for container in spec.get("containers") or ())
    initial = max((_limits(container) for container in spec.get("initContainers") or ()), default=0)
    return max(together, initial)


def _limits(container: Mapping[str, Any]) -> int:
    return gpus_of((container.get("resources") or {}).get("limits"))


def _containers(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[ContainerView, ...]:
    """Init containers first, in the order in which they run."""
    known = {one["name"]: one for part in ("initContainerStatuses", "containerStatuses") for one in status.get(part) or ()}
    declared = [one["name"] for part in ("initContainers", "containers") for one in spec.get(part) or ()]
    return tuple(_container(name, known.get(name)) for name in declared)


def _container(name: str, status: Mapping[str, Any] | None) -> ContainerView:
    if status is None:
        return ContainerView(name=name)
    ended = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated")
    running = "running" in (status.get("state") or {})
    exit_code = ended.get("exitCode") if ended and not running else None
    return ContainerView(name=name, started=running or ended is not None, exit_code=exit_code)


@dataclass(slots=True)
class _Kept:
    """What is kept for one Job: its pods by UID, and why one that has gone was disrupted."""

    pods: dict[str, PodView] = field(default_factory=dict)
    disrupted: str | None = None
    ended: bool = False


class PodIndex:
    """The pods by the UID of their Job. What a Job's pods told is kept until they are gone and the Job has ended."""

    def __init__(self) -> None:
        self._jobs: dict[str, _Kept] = {}

    def replace(self, pods: Iterable[PodView]) -> None:
        """All pods that there are (a fresh list); any other is gone."""
        listed = {pod.uid: pod for pod in pods}
        for pod in [pod for kept in self._jobs.values() for pod in kept.pods.values() if pod.uid not in listed]:
            self.remove(pod)
        for pod in listed.values():
            self.put(pod)

    def put(self, pod: PodView) -> None:
        """A pod is new or has changed."""
        kept = self._jobs.setdefault(pod.job_uid, _Kept())
        kept.pods[pod.uid] = pod
        kept.disrupted = kept.disrupted or pod.disrupted

    def remove(self, pod: PodView) -> None:
        """A pod is gone."""
        kept = self._jobs.get(pod.job_uid)
        if kept is None:
            return
        kept.disrupted = kept.disrupted or pod.disrupted
        kept.pods.pop(pod.uid, None)
        self._drop_finished(pod.job_uid, kept)

    def ended(self, job_uid: str) -> None:
        """A Job has ended or is gone: what is kept for it goes with its last pod."""
        kept = self._jobs.get(job_uid)
        if kept is not None:
            kept.ended = True
            self._drop_finished(job_uid, kept)

    def retain(self, job_uids: Iterable[str]) -> None:
        """All Jobs that there are (a fresh list); any other has ended."""
        present = set(job_uids)
        for job_uid in [job_uid for job_uid in self._jobs if job_uid not in present]:
            self.ended(job_uid)

    def of(self, job_uid: str) -> tuple[PodView, ...]:
        """The pods of a Job that are there."""
        kept = self._jobs.get(job_uid)
        return tuple(kept.pods.values()) if kept else ()

    def running(self, job_uid: str) -> int:
        """How many pods of a Job run."""
        return sum(pod.running for pod in self.of(job_uid))

    def disruption(self, job_uid: str) -> str | None:
        """Why a pod of a Job lost its machine, be it gone or not; None where none did."""
        kept = self._jobs.get(job_uid)
        return kept.disrupted if kept else None

    def unschedulable(self, job_uid: str) -> str | None:
        """Why a pod of a Job finds no place; None where all have one."""
        return next((pod.unschedulable for pod in self.of(job_uid) if pod.unschedulable is not None), None)

    def all(self) -> Iterable[PodView]:
        """Every pod that is there."""
        return (pod for kept in self._jobs.values() for pod in kept.pods.values())

    def __len__(self) -> int:
        """The number of Jobs for which something is kept."""
        return len(self._jobs)

    def _drop_finished(self, job_uid: str, kept: _Kept) -> None:
        """Without pods, all that is worth keeping is a disruption, until the end of the Job has been judged."""
        if not kept.pods and (kept.ended or kept.disrupted is None):
            del self._jobs[job_uid]

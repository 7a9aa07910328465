"""What the Job controller remembers of a Job between two looks: which pods it has counted, and for what.

A real controller keeps the same in `status.uncountedTerminatedPods` and finalizers on the pods. Here every change of a
pod is seen, so each pod is counted in the very moment in which it ends, and once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.local.cluster.agenda import Timer
from workers.local.cluster.failure_policy import COUNT, FAIL_JOB, judge
from workers.local.cluster.objects import Object
from workers.local.cluster.store import DELETED, Change, Entry

INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(kw_only=True, slots=True)
class Ledger:
    """The counts of one Job. Moments are unix seconds."""

    succeeded: int = 0
    failed: int = 0
    counting_failures: int = 0
    """Failed pods that count towards `backoffLimit`."""
    failures_in_a_row: int = 0
    last_failure: float = 0.0
    failed_by_policy: str | None = None
    completed_indexes: set[int] = field(default_factory=set)
    pods: dict[str, Entry] = field(default_factory=dict)
    """Every pod of the Job that is there, by UID."""
    active: dict[str, Entry] = field(default_factory=dict)
    """Those of them that haven't ended and aren't on their way out."""
    terminating: dict[str, Entry] = field(default_factory=dict)
    """Those of them that haven't ended but are on their way out."""
    discarded: set[str] = field(default_factory=set)
    """Pods that the controller itself took away without calling them failed."""
    counted: set[str] = field(default_factory=set)
    started: float | None = None
    finished: float | None = None
    timers: dict[str, Timer] = field(default_factory=dict)

    def see(self, change: Change, spec: Object, now: float) -> None:
        """Count a change of one of the Job's pods."""
        pod = change.new
        gone = change.type == DELETED
        phase = pod.obj["status"].get("phase")
        leaving = "deletionTimestamp" in pod.obj["metadata"]
        ended = gone or phase in ("Succeeded", "Failed")
        _keep(self.pods, pod, not gone)
        _keep(self.active, pod, not ended and not leaving)
        _keep(self.terminating, pod, not ended and leaving)
        if pod.uid not in self.counted and pod.uid not in self.discarded:
            # Kubernetes' `isPodFailed`: a pod on its way out has failed, unless only failed pods are to be replaced.
            early = leaving and spec.get("podReplacementPolicy") != "Failed"
            if phase == "Succeeded":
                self._count_success(pod)
            elif ended or early:
                self._count_failure(pod, spec, now)
        if gone:
            self.counted.discard(pod.uid)
            self.discarded.discard(pod.uid)

    def _count_success(self, pod: Entry) -> None:
        self.counted.add(pod.uid)
        index = index_of(pod.obj)
        if index is not None:
            self.completed_indexes.add(index)
            self.succeeded = len(self.completed_indexes)
        else:
            self.succeeded += 1
        self.failures_in_a_row = 0

    def _count_failure(self, pod: Entry, spec: Object, now: float) -> None:
        self.counted.add(pod.uid)
        self.failed += 1
        verdict = judge(spec.get("podFailurePolicy"), pod.obj)
        if verdict.action == COUNT:
            self.counting_failures += 1
        elif verdict.action == FAIL_JOB and self.failed_by_policy is None:
            self.failed_by_policy = verdict.message
        self.failures_in_a_row += 1
        self.last_failure = now

    def restarts(self) -> int:
        """How often the containers of pods that are still there were started again."""
        return sum(status["restartCount"] for pod in self.active.values() for status in pod.obj["status"].get("containerStatuses") or ())

    def ready(self) -> int:
        """How many pods are ready."""
        return sum(
            any(condition["type"] == "Ready" and condition["status"] == "True" for condition in pod.obj["status"].get("conditions") or ())
            for pod in self.active.values()
        )

    def cancel_timers(self) -> None:
        """Plan nothing any more."""
        for timer in self.timers.values():
            timer.cancel()
        self.timers.clear()


def _keep(pods: dict[str, Entry], pod: Entry, wanted: bool) -> None:
    if wanted:
        pods[pod.uid] = pod
    else:
        pods.pop(pod.uid, None)


def index_of(pod: Object) -> int | None:
    """The completion index of a pod of an Indexed Job."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return int(text) if text is not None else None


def ranges(indexes: set[int]) -> str:
    """Indexes in the form of `status.completedIndexes`, such as `0-2,5`."""
    parts: list[str] = []
    ordered = sorted(indexes)
    first = 0
    for position, index in enumerate(ordered):
        if position + 1 < len(ordered) and ordered[position + 1] == index + 1:
            continue
        start = ordered[first]
        parts.append(str(start) if start == index else f"{start}-{index}")
        first = position + 1
    return ",".join(parts)

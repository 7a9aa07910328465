"""The Job controller: pods for what is wanted, conditions for what has come of it.

It follows `pkg/controller/job` of Kubernetes 1.31 and later, where a Job is Complete or Failed only when its last pod has ended and
`SuccessCriteriaMet` or `FailureTarget` stands there before.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.local.cluster.deletion import FOREGROUND, Deletion
from workers.local.cluster.job_ledger import Ledger, index_of, ranges
from workers.local.cluster.job_pods import create_pod
from workers.local.cluster.objects import Object, controller_of, find_condition, holds, with_condition
from workers.local.cluster.store import DELETED, Change, Entry
from workers.local.cluster.world import World

_COMPONENT = "job-controller"
_OWN = "kubernetes.io/job-controller"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failure:
    """Why a Job has failed."""

    reason: str
    message: str


class JobController:
    """Brings Jobs and their pods in line, each Job at most once for every burst of changes."""

    def __init__(self, world: World, deletion: Deletion) -> None:
        self._world = world
        self._store = world.store
        self._deletion = deletion
        self._ledgers: dict[str, Ledger] = {}
        self._planned: set[str] = set()
        self._store.on_change(world.jobs, self._see_job)
        self._store.on_change(world.pods, self._see_pod)

    def _see_job(self, change: Change) -> None:
        uid = change.new.uid
        if change.type == DELETED:
            ledger = self._ledgers.pop(uid, None)
            if ledger is not None:
                ledger.cancel_timers()
            return
        if uid not in self._ledgers:
            self._ledgers[uid] = Ledger()
        if change.old is None or change.old.obj["spec"] is not change.new.obj["spec"]:
            self._plan(uid)

    def _see_pod(self, change: Change) -> None:
        reference = controller_of(change.new.obj)
        ledger = self._ledgers.get(reference["uid"]) if reference is not None else None
        if reference is None or ledger is None:
            return
        job = self._store.by_uid(reference["uid"])
        if job is not None:
            ledger.see(change, job.obj["spec"], self._world.agenda.now)
            self._plan(job.uid)

    def _plan(self, uid: str) -> None:
        if uid not in self._planned:
            self._planned.add(uid)
            self._world.agenda.after(self._world.pace.controller_delay, lambda: self._look(uid))

    def _wake(self, uid: str, ledger: Ledger, name: str, moment: float) -> None:
        """Look again at a certain time; there is one such time under each name."""
        timer = ledger.timers.get(name)
        if timer is not None:
            timer.cancel()
        ledger.timers[name] = self._world.agenda.at(moment, lambda: self._plan(uid))

    def _look(self, uid: str) -> None:
        self._planned.discard(uid)
        job, ledger = self._store.by_uid(uid), self._ledgers.get(uid)
        if job is None or ledger is None or job.obj["spec"].get("managedBy", _OWN) != _OWN:
            return
        status = job.obj["status"]
        if holds(status, "Complete") or holds(status, "Failed"):
            self._expire(job, ledger)
        elif "deletionTimestamp" not in job.obj["metadata"]:
            self._reconcile(job, ledger)

    def _reconcile(self, job: Entry, ledger: Ledger) -> None:
        spec, status = job.obj["spec"], dict(job.obj["status"])
        suspended = bool(spec.get("suspend"))
        if "startTime" not in status and not suspended:
            self._start(job, ledger, status)
        failure = self._failure(job, ledger, status)
        if failure is not None:
            self._add_condition(status, "FailureTarget", failure.reason, failure.message)
            self._delete_pods(job, ledger)
        elif self._is_done(spec, ledger):
            if not holds(status, "SuccessCriteriaMet"):
                self._add_condition(status, "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
            self._delete_pods(job, ledger)
        else:
            self._set_suspended(job, ledger, status, suspended=suspended)
            self._manage(job, ledger, suspended=suspended)
        self._count(spec, ledger, status)
        ended = self._end(ledger, status, failure)
        self._store_status(job, status)
        if ended:
            self._announce_end(job, failure)

    def _start(self, job: Entry, ledger: Ledger, status: Object) -> None:
        now = self._world.agenda.now
        status["startTime"] = self._world.timestamp
        ledger.started = now
        deadline = job.obj["spec"].get("activeDeadlineSeconds")
        if deadline is not None:
            self._wake(job.uid, ledger, "deadline", now + deadline)

    def _failure(self, job: Entry, ledger: Ledger, status: Object) -> _Failure | None:
        """Why the Job has failed, or None where it hasn't."""
        spec = job.obj["spec"]
        target = find_condition(status, "FailureTarget")
        if target is not None:
            return _Failure(reason=target["reason"], message=target["message"])
        if holds(status, "SuccessCriteriaMet"):
            return None
        if ledger.failed_by_policy is not None:
            return _Failure(reason="PodFailurePolicy", message=ledger.failed_by_policy)
        if self._is_beyond_backoff_limit(spec, ledger):
            return _Failure(reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit")
        deadline = spec.get("activeDeadlineSeconds")
        running = ledger.started is not None and not spec.get("suspend")
        if deadline is not None and ledger.started is not None and running:
            if self._world.agenda.now - ledger.started >= deadline:
                return _Failure(reason="DeadlineExceeded", message="Job was active longer than specified deadline")
            if "deadline" not in ledger.timers:
                self._wake(job.uid, ledger, "deadline", ledger.started + deadline)
        return None

    def _is_beyond_backoff_limit(self, spec: Object, ledger: Ledger) -> bool:
        limit: int = spec["backoffLimit"]
        if ledger.counting_failures > limit:
            return True
        if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
            return False
        # `pastBackoffLimitOnFailure`: with a limit of 0 the first restart is too much, else the limit-th one is.
        restarts = ledger.restarts()
        return restarts > 0 if limit == 0 else restarts >= limit

    def _is_done(self, spec: Object, ledger: Ledger) -> bool:
        completions = spec.get("completions")
        if completions is None:
            return ledger.succeeded > 0 and not ledger.active and not ledger.terminating
        return bool(ledger.succeeded >= completions)

    def _set_suspended(self, job: Entry, ledger: Ledger, status: Object, *, suspended: bool) -> None:
        if suspended:
            if not holds(status, "Suspended"):
                self._add_condition(status, "Suspended", "JobSuspended", "Job suspended")
                self._say(job, "Suspended", "Job suspended")
        elif holds(status, "Suspended"):
            self._add_condition(status, "Suspended", "JobResumed", "Job resumed", value="False")
            self._say(job, "Resumed", "Job resumed")
            self._start(job, ledger, status)

    def _manage(self, job: Entry, ledger: Ledger, *, suspended: bool) -> None:
        """Create or delete pods until as many are active as are wanted."""
        spec = job.obj["spec"]
        wanted = 0 if suspended else self._wanted(spec, ledger)
        surplus = len(ledger.active) - wanted
        if surplus > 0:
            # Pods that don't run yet go first, then the youngest.
            pods = sorted(ledger.active.values(), key=lambda pod: (pod.obj["status"].get("phase") == "Running", -pod.version))
            for pod in pods[:surplus]:
                ledger.discarded.add(pod.uid)
                self._say(job, "SuccessfulDelete", f"Deleted pod: {pod.name}")
                self._deletion.delete(pod)
            return
        missing = -surplus
        if spec.get("podReplacementPolicy") == "Failed":
            missing -= len(ledger.terminating)
        if missing <= 0 or suspended or self._must_wait(job, ledger):
            return
        for index in self._next_indexes(spec, ledger, missing):
            pod = create_pod(self._world, job, index)
            self._say(job, "SuccessfulCreate", f"Created pod: {pod.name}")

    def _wanted(self, spec: Object, ledger: Ledger) -> int:
        parallelism: int = spec["parallelism"]
        completions: int | None = spec.get("completions")
        if completions is None:
            return len(ledger.active) if ledger.succeeded else parallelism
        return min(parallelism, max(0, completions - ledger.succeeded))

    def _must_wait(self, job: Entry, ledger: Ledger) -> bool:
        """Whether the back-off after the last failure still goes on; looks again when it is over."""
        if not ledger.failures_in_a_row:
            return False
        pace = self._world.pace
        wait = min(pace.backoff_base * 2 ** min(ledger.failures_in_a_row - 1, 30), pace.backoff_limit)
        ready = ledger.last_failure + wait
        if ready <= self._world.agenda.now:
            return False
        self._wake(job.uid, ledger, "backoff", ready)
        return True

    def _next_indexes(self, spec: Object, ledger: Ledger, count: int) -> list[int | None]:
        if spec.get("completionMode") != "Indexed":
            return [None] * count
        busy = {index_of(pod.obj) for pods in (ledger.active, ledger.terminating) for pod in pods.values()}
        free = (index for index in range(spec["completions"]) if index not in busy and index not in ledger.completed_indexes)
        return [index for index, _ in zip(free, range(count), strict=False)]

    def _delete_pods(self, job: Entry, ledger: Ledger) -> None:
        for pod in list(ledger.active.values()):
            self._say(job, "SuccessfulDelete", f"Deleted pod: {pod.name}")
            self._deletion.delete(pod)

    def _count(self, spec: Object, ledger: Ledger, status: Object) -> None:
        counts = {"active": len(ledger.active), "succeeded": ledger.succeeded, "failed": ledger.failed}
        for name, number in counts.items():
            if number:
                status[name] = number
            else:
                status.pop(name, None)
        status["ready"], status["terminating"] = ledger.ready(), len(ledger.terminating)
        status["uncountedTerminatedPods"] = {}
        if spec.get("completionMode") == "Indexed" and ledger.completed_indexes:
            status["completedIndexes"] = ranges(ledger.completed_indexes)

    def _end(self, ledger: Ledger, status: Object, failure: _Failure | None) -> bool:
        """Put the final condition in place when the last pod has ended."""
        if ledger.active or ledger.terminating:
            return False
        if failure is not None:
            self._add_condition(status, "Failed", failure.reason, failure.message)
            return True
        if holds(status, "SuccessCriteriaMet"):
            self._add_condition(status, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
            status["completionTime"] = self._world.timestamp
            return True
        return False

    def _add_condition(self, status: Object, kind: str, reason: str, message: str, *, value: str = "True") -> None:
        now = self._world.timestamp
        times = {"lastProbeTime": now, "lastTransitionTime": now}
        condition = {"type": kind, "status": value, **times, "reason": reason, "message": message}
        if (old := find_condition(status, kind)) is None or old["status"] != value:
            status["conditions"] = with_condition(status.get("conditions") or (), condition)

    def _store_status(self, job: Entry, status: Object) -> None:
        current = self._store.by_uid(job.uid)
        if current is not None and current.obj["status"] != status:
            self._store.replace(current, {**current.obj, "status": status})

    def _say(self, job: Entry, reason: str, message: str, *, warning: bool = False) -> None:
        self._world.events.record(job, warning=warning, reason=reason, message=message, component=_COMPONENT)

    def _announce_end(self, job: Entry, failure: _Failure | None) -> None:
        if failure is not None:
            self._say(job, failure.reason, failure.message, warning=True)
        else:
            self._say(job, "Completed", "Job completed")
        ledger = self._ledgers.get(job.uid)
        if ledger is not None:
            ledger.cancel_timers()
            self._plan(job.uid)

    def _expire(self, job: Entry, ledger: Ledger) -> None:
        """Delete a finished Job when its `ttlSecondsAfterFinished` is over."""
        ttl = job.obj["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or "deletionTimestamp" in job.obj["metadata"]:
            return
        if ledger.finished is None:
            ledger.finished = self._world.agenda.now
        due = ledger.finished + ttl
        if due <= self._world.agenda.now:
            self._deletion.delete(job, policy=FOREGROUND)
        else:
            self._wake(job.uid, ledger, "ttl", due)

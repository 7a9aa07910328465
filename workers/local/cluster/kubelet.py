"""Runs the pods that have a node: start, end, restart, eviction, termination. One kubelet stands for those of all nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from workers.local.cluster import pod_status
from workers.local.cluster.agenda import Timer
from workers.local.cluster.container_logs import PodLog, Run
from workers.local.cluster.deletion import Deletion
from workers.local.cluster.disruptions import disruption
from workers.local.cluster.objects import Object, controller_of, rfc3339
from workers.local.cluster.steering import Plan, Steering
from workers.local.cluster.store import DELETED, Change, Entry
from workers.local.cluster.world import World

_COMPONENT = "kubelet"
# The kubelet restarts a container after 10 s, 20 s and so on up to 300 s; the Job controller's waits have the same form.
_LONGEST_RESTART_FACTOR = 30


@dataclass(kw_only=True, slots=True)
class _Sandbox:
    """What the kubelet knows of a pod that it runs."""

    log: PodLog = field(default_factory=PodLog)
    plan: Plan | None = None
    restarts: int = 0
    timers: list[Timer] = field(default_factory=list)
    terminating: bool = False

    def cancel(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


class Kubelet:
    """Moves pods through their phases. `on_started` is told of every pod whose containers start for the first time."""

    def __init__(self, world: World, deletion: Deletion, *, on_started: Callable[[Entry], None]) -> None:
        self._world = world
        self._store = world.store
        self._deletion = deletion
        self._on_started = on_started
        self._steering = Steering(default_duration=world.pace.default_duration)
        self._sandboxes: dict[str, _Sandbox] = {}
        self._addresses = 0
        self._store.on_change(world.pods, self._see)

    def log_of(self, uid: str) -> PodLog | None:
        """What a pod has written, or None where it never came to a node."""
        sandbox = self._sandboxes.get(uid)
        return sandbox.log if sandbox is not None else None

    def running_since(self, uid: str) -> float | None:
        """When the present run of a pod's containers began, in unix seconds; None where none runs."""
        sandbox = self._sandboxes.get(uid)
        run = sandbox.log.runs[-1] if sandbox is not None and sandbox.log.runs else None
        return run.started if run is not None and run.ended is None else None

    def _see(self, change: Change) -> None:
        pod = change.new
        if change.type == DELETED:
            sandbox = self._sandboxes.pop(pod.uid, None)
            if sandbox is not None:
                sandbox.cancel()
                self._end_run(sandbox)
            return
        metadata, spec = pod.obj["metadata"], pod.obj["spec"]
        if not spec.get("nodeName") or pod.obj["status"].get("phase") in ("Succeeded", "Failed"):
            return
        sandbox = self._sandboxes.get(pod.uid)
        if sandbox is None:
            sandbox = self._sandboxes[pod.uid] = _Sandbox()
            self._later(pod.uid, self._world.pace.controller_delay, self._create_containers)
        if "deletionTimestamp" in metadata and not sandbox.terminating:
            sandbox.terminating = True
            sandbox.cancel()
            planned = sandbox.plan.termination if sandbox.plan is not None else None
            needed = planned if planned is not None else self._world.pace.termination
            seconds = min(float(metadata.get("deletionGracePeriodSeconds") or 0), needed)
            self._later(pod.uid, seconds, self._terminate)

    def _later(self, uid: str, seconds: float, action: Callable[[Entry, _Sandbox], None]) -> None:
        """Do something with a pod after a while, if it is still there and its plans haven't changed."""

        def act() -> None:
            pod, sandbox = self._store.by_uid(uid), self._sandboxes.get(uid)
            if pod is not None and sandbox is not None:
                action(pod, sandbox)

        self._sandboxes[uid].timers.append(self._world.agenda.after(seconds, act))

    def _set_status(self, pod: Entry, status: Object) -> Entry:
        return self._store.replace(pod, {**pod.obj, "status": status})

    def _say(self, pod: Entry, reason: str, message: str, *, container: str = "", group: str = "containers", warning: bool = False) -> None:
        part = f"spec.{group}{{{container}}}" if container else ""
        host = pod.obj["spec"].get("nodeName") or ""
        self._world.events.record(pod, warning=warning, reason=reason, message=message, component=_COMPONENT, host=host, part=part)

    def _say_pulled(self, pod: Entry, container: Object, *, group: str = "containers") -> None:
        message = f'Container image "{container["image"]}" already present on machine'
        self._say(pod, "Pulled", message, container=container["name"], group=group)

    def _say_started(self, pod: Entry, container: Object, *, group: str = "containers") -> None:
        name = container["name"]
        self._say(pod, "Created", f"Created container: {name}", container=name, group=group)
        self._say(pod, "Started", f"Started container {name}", container=name, group=group)

    def _job_of(self, pod: Entry) -> Object | None:
        reference = controller_of(pod.obj)
        owner = self._store.by_uid(reference["uid"]) if reference is not None else None
        return owner.obj if owner is not None else None

    def _create_containers(self, pod: Entry, _sandbox: _Sandbox) -> None:
        host = f"10.0.{sum(pod.obj['spec']['nodeName'].encode()) % 250}.1"
        pod = self._set_status(pod, pod_status.creating(pod.obj, host=host, now=self._world.timestamp))
        for container in pod.obj["spec"].get("initContainers") or ():
            self._say_pulled(pod, container, group="initContainers")
            self._say_started(pod, container, group="initContainers")
        for container in pod.obj["spec"]["containers"]:
            self._say_pulled(pod, container)
        self._later(pod.uid, self._world.pace.container_start, self._start)

    def _start(self, pod: Entry, sandbox: _Sandbox) -> None:
        """Start the containers, for the first time or again."""
        first = sandbox.plan is None
        if sandbox.plan is None:
            sandbox.plan = self._steering.plan(pod.obj, self._job_of(pod))
        plan, now = sandbox.plan, self._world.agenda.now
        lines = plan.lines if plan.lines is not None else (f"{pod.name} starts on {pod.obj['spec']['nodeName']}", "work is done")
        run = Run(started=now, duration=plan.duration, lines=lines, own=plan.own_lines, rotate=plan.rotate)
        sandbox.log.runs.append(run)
        address = pod.obj["status"].get("podIP") or self._next_address()
        status = pod_status.running(pod.obj, address=address, restarts=sandbox.restarts, now=self._world.timestamp)
        pod = self._set_status(pod, status)
        for container in pod.obj["spec"]["containers"]:
            self._say_started(pod, container)
        if plan.duration != math.inf:
            self._later(pod.uid, plan.duration, self._exit)
        if first:
            if plan.interrupt_after is not None:
                self._later(pod.uid, plan.interrupt_after, self._interrupt)
            deadline = pod.obj["spec"].get("activeDeadlineSeconds")
            if deadline is not None:
                self._later(pod.uid, float(deadline), self._exceed_deadline)
            self._on_started(pod)

    def _next_address(self) -> str:
        self._addresses += 1
        number = self._addresses
        return f"10.{1 + number // 62_500 % 250}.{number // 250 % 250}.{number % 250 + 1}"

    def _end_run(self, sandbox: _Sandbox) -> str:
        """Note the end of the present run; returns when it had started."""
        for follower in sandbox.log.followers:
            follower.close()
        sandbox.log.followers.clear()
        now = self._world.agenda.now
        if not sandbox.log.runs:
            return rfc3339(now)
        run = sandbox.log.runs[-1]
        if run.ended is None:
            run.ended = now
        return rfc3339(run.started)

    def _exit(self, pod: Entry, sandbox: _Sandbox) -> None:
        """The containers come to their own end; the first one has the planned exit code."""
        if sandbox.plan is None:
            return
        code = self._steering.exit_code(sandbox.plan)
        codes = [code, *([0] * (len(pod.obj["spec"]["containers"]) - 1))]
        policy = pod.obj["spec"].get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and code != 0):
            self._restart(pod, sandbox, codes)
        else:
            self._finish(pod, sandbox, codes)

    def _restart(self, pod: Entry, sandbox: _Sandbox, codes: list[int]) -> None:
        started = self._end_run(sandbox)
        sandbox.restarts += 1
        now = self._world.timestamp
        status = pod_status.backing_off(pod.obj, codes=codes, started=started, restarts=sandbox.restarts, now=now)
        pod = self._set_status(pod, status)
        name = pod.obj["spec"]["containers"][0]["name"]
        message = f"Back-off restarting failed container {name} in pod {pod.name}_{pod.namespace}({pod.uid})"
        self._say(pod, "BackOff", message, container=name, warning=True)
        factor = min(2 ** (sandbox.restarts - 1), _LONGEST_RESTART_FACTOR)
        self._later(pod.uid, self._world.pace.backoff_base * factor, self._start)

    def _finish(self, pod: Entry, sandbox: _Sandbox, codes: list[int]) -> Entry:
        sandbox.cancel()
        started = self._end_run(sandbox)
        now = self._world.timestamp
        status = pod_status.ended(pod.obj, codes=codes, started=started, restarts=sandbox.restarts, now=now)
        return self._set_status(pod, status)

    def _killed(self, pod: Entry, sandbox: _Sandbox) -> Entry:
        return self._finish(pod, sandbox, [pod_status.TERMINATED] * len(pod.obj["spec"]["containers"]))

    def _terminate(self, pod: Entry, sandbox: _Sandbox) -> None:
        """The grace period is over: what still runs has failed, and the pod goes."""
        if pod.obj["status"].get("phase") not in ("Succeeded", "Failed"):
            pod = self._killed(pod, sandbox)
            for container in pod.obj["spec"]["containers"]:
                self._say(pod, "Killing", f"Stopping container {container['name']}", container=container["name"])
        self._deletion.finish(pod)

    def _interrupt(self, pod: Entry, sandbox: _Sandbox) -> None:
        reason = sandbox.plan.interrupt_reason if sandbox.plan is not None else "EvictionByEvictionAPI"
        self.disrupt(pod, reason=reason)

    def _exceed_deadline(self, pod: Entry, sandbox: _Sandbox) -> None:
        pod = self._killed(pod, sandbox)
        message = "Pod was active on the node longer than the specified deadline"
        pod = self._set_status(pod, {**pod.obj["status"], "reason": "DeadlineExceeded", "message": message})
        self._say(pod, "DeadlineExceeded", message)

    def disrupt(self, pod: Entry, *, reason: str) -> None:
        """Interrupt a pod. One that the kubelet itself evicts stays, failed; any other is deleted with its grace period."""
        if pod.obj["status"].get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod.obj["metadata"]:
            return
        why = disruption(reason)
        status = pod_status.disrupted(pod.obj["status"], reason=reason, message=why.message, now=self._world.timestamp)
        pod = self._set_status(pod, status)
        host = (pod.obj["spec"].get("nodeName") or "") if why.component == _COMPONENT else ""
        text = why.text.format(pod=f"{pod.namespace}/{pod.name}")
        self._world.events.record(pod, warning=why.warning, reason=why.event, message=text, component=why.component, host=host)
        sandbox = self._sandboxes.get(pod.uid)
        if reason == "TerminationByKubelet" and sandbox is not None:
            pod = self._killed(pod, sandbox)
            self._set_status(pod, {**pod.obj["status"], "reason": "Evicted", "message": why.message})
        else:
            self._deletion.delete(pod)

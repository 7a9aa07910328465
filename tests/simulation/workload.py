"""The jobs of a run: what users ask for and when, and what must have become of it in the end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.jobs.fields import DEFAULT_NAMESPACE, JobFields
from shared.jobs.model import Head
from shared.jobs.states import State
from shared.jobs.submission import JobRequest

SPOT_TYPE = "g5.xlarge"
NAMESPACE = DEFAULT_NAMESPACE
_STEER = "simulation.gpufleet.io/"


@dataclass(kw_only=True)
class Plan:
    """One job: its request, when it is sent and which way, and what is done to it later. Times in seconds of the run."""

    key: str
    kind: str
    request: dict[str, Any]
    submit_at: float
    by_queue: bool
    again_at: float | None
    cancel_at: float | None = None
    delete_at: float | None = None
    pause_at: float | None = None
    job_id: str | None = None
    stranger_uid: str | None = None
    stranger_region: str | None = None
    endless: bool = False


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of job: how its objects behave on the cluster, its options, and how it may end."""

    steering: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)


def draw(chance: random.Random, number: int, regions: tuple[str, ...], until: float, *, since: float = 0.0) -> Plan:
    """The `number`-th job of a run whose users are busy until a time; `since` for one of those that come later."""
    name = chance.choice(list(_KINDS))
    kind = _KINDS[name](chance)
    key = f"key-{number}"
    submit_at = chance.uniform(since, until) if chance.random() < 0.8 else since
    duration = chance.choice((0.0, 0.5, 5.0, 40.0, 120.0)) * chance.random()
    steering = {"duration": f"{duration:.2f}", **kind.steering}
    request = {
        "manifest": _manifest(f"job-{number}", steering, kind.spec),
        "supporting": [_service(f"rendezvous-{number}")] if chance.random() < 0.2 else [],
        "target_region": chance.choice((*regions, "any", "any")),
        "priority": chance.choice((0, 0, 50, 100)),
        **kind.options,
    }
    plan = Plan(
        key=key,
        kind=name,
        request=request,
        submit_at=submit_at,
        by_queue=chance.random() < 0.25,
        again_at=submit_at + chance.uniform(0.0, 60.0) if chance.random() < 0.3 else None,
        endless=kind.steering.get("hang") == "true",
    )
    if name == "cancelled":
        plan.cancel_at = submit_at + chance.choice((0.02, 0.3, 3.0, 30.0, 100.0)) * chance.random()
    if name == "paused":
        plan.pause_at = submit_at + chance.choice((1.0, 10.0, 60.0)) * chance.random()
    if name == "deleted":
        plan.delete_at = submit_at + chance.choice((1.0, 10.0, 60.0)) * chance.random()
    return plan


def request_of(content: Mapping[str, Any], key: str) -> JobRequest:
    """A request as the API makes it of a body."""
    return JobFields.model_validate(dict(content)).request(scope="api", idempotency_key=key)


def wrong_end(plan: Plan, head: Head) -> str | None:
    """What is wrong with how a job ended; None where it ended as it had to."""
    ended = (head.state, head.reason if head.state is State.FAILED else None)
    if ended not in _allowed(plan, head):
        return f"{plan.kind}: {head.state}, {head.reason}: {head.message}"
    if plan.kind not in _ATTEMPTS:
        return None
    expected = _ATTEMPTS[plan.kind](head)
    if plan.kind == "flaky" and head.any_region:
        return None  # each cluster counts the starts of its own, and the job may have been moved
    # An attempt that fails while its machine is taken away counts as an interruption.
    least = expected if head.state is State.FAILED else max(0, expected - head.interruptions)
    if not least <= head.attempts <= expected:
        return f"{plan.kind}: {head.attempts} attempts were counted instead of {expected}, {head.interruptions} interruptions"
    return None


_ATTEMPTS: dict[str, Callable[[Head], int]] = {
    "succeeds": lambda head: 0,
    "pod fails once": lambda head: 0,
    "interrupted": lambda head: 0,
    "spot": lambda head: 0,
    "flaky": lambda head: 2,
    "doomed": lambda head: head.retry.max_attempts,
    "execution timeout": lambda head: head.retry.max_attempts,
}
"""How many attempts must have failed, for those kinds of which it is known."""


def _allowed(plan: Plan, head: Head) -> list[tuple[State, str | None]]:
    succeeded, cancelled = (State.SUCCEEDED, None), (State.CANCELLED, None)
    match plan.kind:
        case "doomed":
            return [(State.FAILED, "BackoffLimitExceeded")]
        case "execution timeout":
            return [(State.FAILED, "execution timeout")]
        case "total timeout":
            return [(State.FAILED, "total timeout")]
        case "queue timeout":
            return [succeeded, (State.FAILED, "queue timeout")]
        case "cancelled":
            return [cancelled] if plan.endless else [cancelled, succeeded]
        case "flaky" if head.any_region:
            return [succeeded, (State.FAILED, "BackoffLimitExceeded")]
        case "stranger" if plan.stranger_uid is not None and plan.stranger_region == head.region:
            return [(State.FAILED, "name taken")]
        case "deleted":
            return [(State.FAILED, "deleted on the cluster")]
        case _:
            return [succeeded]


def _cancelled(chance: random.Random) -> Kind:
    if chance.random() < 0.6:
        return Kind(steering={"hang": "true"})
    return Kind(options={"retry": {"max_attempts": 3}})


_KINDS: dict[str, Callable[[random.Random], Kind]] = {
    "succeeds": lambda chance: Kind(),
    "flaky": lambda chance: Kind(
        steering={"exit-code": "1,1,0"}, options={"retry": {"max_attempts": 3, "backoff_seconds": chance.choice((0, 5, 60))}}
    ),
    "pod fails once": lambda chance: Kind(steering={"exit-code": "1,0"}, spec={"backoffLimit": 2}),
    "doomed": lambda chance: Kind(
        steering={"exit-code": "1"}, options={"retry": {"max_attempts": chance.choice((1, 2)), "backoff_seconds": 5}}
    ),
    "interrupted": lambda chance: Kind(
        steering={
            "duration": "20",
            "interrupt-after": f"{chance.uniform(0.0, 15.0):.2f}",
            "interrupt-times": str(chance.choice((1, 2))),
        },
    ),
    "execution timeout": lambda chance: Kind(
        steering={"hang": "true"},
        options={
            "timeouts": {"execution_seconds": chance.choice((1, 20, 60))},
            "retry": {"max_attempts": chance.choice((1, 2)), "backoff_seconds": 5},
        },
    ),
    "total timeout": lambda chance: Kind(steering={"hang": "true"}, options={"timeouts": {"total_seconds": chance.choice((1, 10, 90))}}),
    "queue timeout": lambda chance: Kind(options={"timeouts": {"queue_seconds": chance.choice((1, 10, 90))}}),
    "cancelled": _cancelled,
    "paused": lambda chance: Kind(steering={"duration": "30"}),
    "deleted": lambda chance: Kind(steering={"hang": "true"}),
    "spot": lambda chance: Kind(options={"max_spot_price": 1.25, "spot_instance_type": SPOT_TYPE}),
    "stranger": lambda chance: Kind(options={"max_spot_price": 1.25, "spot_instance_type": SPOT_TYPE}),
}


def stranger(name: str) -> dict[str, Any]:
    """A Job of somebody else."""
    return _manifest(name, {}, {"suspend": True})


def _manifest(name: str, steering: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {f"{_STEER}{key}": value for key, value in steering.items()}},
        "spec": {
            "backoffLimit": 0,
            **spec,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "python:3.12", "command": ["true"], "resources": _ONE_CPU}],
                },
            },
        },
    }


_ONE_CPU = {"requests": {"cpu": "1"}}


def _service(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"clusterIP": "None", "ports": [{"port": 29500}]}}

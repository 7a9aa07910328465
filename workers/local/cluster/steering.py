"""What a simulated pod is to do, from annotations under `simulation.gpufleet.io/` on its template or its Job.

| annotation | meaning |
|---|---|
| `duration` | seconds that the containers run; a float |
| `exit-code` | the exit code, or a list by attempt: "1,1,0" fails twice and then succeeds; the last one repeats |
| `logs` | lines that are written over the duration |
| `logs.<container>` | the same for one container, which then writes these instead |
| `rotate-lines` | after so many lines the log is rotated: earlier lines can't be read any more, and streams end |
| `interrupt-after` | seconds after which the pod is evicted |
| `interrupt-times` | how many pods are evicted so; 1 where it is absent |
| `interrupt-reason` | the reason of `DisruptionTarget`; `EvictionByEvictionAPI` where it is absent |
| `hang` | "true": the containers never end |
| `termination` | seconds that the containers take to end once they are told to, at most their grace period |

Attempts and interruptions are counted over all Jobs that carry the same `gpufleet.io/job-id`, so that a list goes on when a fleet
tries again with a new Job. An attempt counts when its containers exit, an interruption when its pod starts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workers.local.cluster.objects import Object

PREFIX = "simulation.gpufleet.io/"
JOB_ID = "gpufleet.io/job-id"
_OWN = f"{PREFIX}logs."


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What one pod is to do. Times in seconds after the start of its containers; `duration` may be infinite."""

    key: str
    duration: float
    exit_codes: tuple[int, ...]
    lines: tuple[str, ...] | None
    own_lines: Mapping[str, tuple[str, ...]]
    rotate: int | None
    interrupt_after: float | None
    interrupt_reason: str
    termination: float | None


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError:
        return default


def _codes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",")) if text else (0,)
    except ValueError:
        return (0,)


class Steering:
    """Reads plans, and counts what must be counted across pods."""

    def __init__(self, *, default_duration: float) -> None:
        self._default_duration = default_duration
        self._exits: dict[str, int] = {}
        self._interruptions: dict[str, int] = {}

    def plan(self, pod: Object, job: Object | None) -> Plan:
        """The plan of a pod that starts now; counts its interruption, if it is to have one."""
        annotations: dict[str, str] = {}
        for metadata in ((job or {}).get("metadata", {}), pod["metadata"]):
            annotations |= metadata.get("annotations") or {}
        uid = (job or pod)["metadata"]["uid"]
        key = annotations.get(JOB_ID) or uid
        logs = annotations.get(f"{PREFIX}logs")
        duration = max(0.0, _number(annotations.get(f"{PREFIX}duration"), self._default_duration))
        return Plan(
            key=key,
            duration=math.inf if annotations.get(f"{PREFIX}hang") == "true" else duration,
            exit_codes=_codes(annotations.get(f"{PREFIX}exit-code", "")),
            lines=None if logs is None else tuple(logs.splitlines()),
            own_lines={key.removeprefix(_OWN): tuple(text.splitlines()) for key, text in annotations.items() if key.startswith(_OWN)},
            rotate=int(_number(annotations.get(f"{PREFIX}rotate-lines"), 0)) or None,
            interrupt_after=self._interruption(key, annotations),
            interrupt_reason=annotations.get(f"{PREFIX}interrupt-reason") or "EvictionByEvictionAPI",
            termination=_number(annotations[f"{PREFIX}termination"], 0.0) if f"{PREFIX}termination" in annotations else None,
        )

    def _interruption(self, key: str, annotations: Mapping[str, str]) -> float | None:
        text = annotations.get(f"{PREFIX}interrupt-after")
        if not text:
            return None
        done = self._interruptions.get(key, 0)
        if done >= _number(annotations.get(f"{PREFIX}interrupt-times"), 1):
            return None
        self._interruptions[key] = done + 1
        return _number(text, 0.0)

    def exit_code(self, plan: Plan) -> int:
        """The exit code of the attempt that ends now."""
        attempt = self._exits.get(plan.key, 0)
        self._exits[plan.key] = attempt + 1
        return plan.exit_codes[min(attempt, len(plan.exit_codes) - 1)]

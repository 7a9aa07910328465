"""What the demo sends: 60 parcels, each with the way that it takes and the end that it must come to."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from workers.local.demo.examples import Example

COUNT = 60
LABEL = "parcel"
"""The label by which a job is known again, whichever way it came."""


class Way(StrEnum):
    """How a parcel is sent."""

    API = "API"
    QUEUE = "queue"


class Fate(StrEnum):
    """What is to become of a parcel."""

    SUCCEED = "succeeds"
    FLAKY = "fails twice, then succeeds"
    DOOMED = "fails for good"
    CANCELLED = "cancelled while it runs"
    TWICE = "sent twice under one idempotency key"
    REFUSED = "refused by the policy"
    MALFORMED = "malformed"


STATES = {
    Fate.SUCCEED: "succeeded",
    Fate.FLAKY: "succeeded",
    Fate.TWICE: "succeeded",
    Fate.DOOMED: "failed",
    Fate.CANCELLED: "cancelled",
}
"""The state at the end; a fate without one is a rejection."""

_ODD = {
    (Way.API, 3): Fate.FLAKY,
    (Way.API, 5): Fate.CANCELLED,
    (Way.API, 8): Fate.TWICE,
    (Way.API, 12): Fate.REFUSED,
    (Way.QUEUE, 4): Fate.MALFORMED,
    (Way.QUEUE, 9): Fate.DOOMED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Parcel:
    """One of the 60. `body` is what is sent: a request of the API, or a message; a malformed one is no JSON."""

    number: int
    way: Way
    fate: Fate
    example: Example
    body: Mapping[str, Any]

    @property
    def reference(self) -> str:
        """The producer's own name for it."""
        return f"parcel-{self.number}"

    @property
    def accepted(self) -> bool:
        """Whether a job must come of it."""
        return self.fate in STATES

    @property
    def idempotency_key(self) -> str | None:
        """The key under which it is sent, twice."""
        return f"demo-{self.reference}" if self.fate is Fate.TWICE else None

    @property
    def pods(self) -> int:
        """How many pods each execution of it starts."""
        return self.example.pods

    def message(self) -> str:
        """The body of the SQS message."""
        text = json.dumps({**self.body, "reference": self.reference})
        return text[: len(text) // 2] if self.fate is Fate.MALFORMED else text


def parcels(examples: Mapping[str, Example], regions: Sequence[str], *, seed: int = 1) -> list[Parcel]:
    """The 60 parcels, half for each way; equal seeds give equal ones."""
    chance = random.Random(seed)
    files = list(examples.values())
    targets = [*regions, "any"]
    found: list[Parcel] = []
    for way in Way:
        for index in range(COUNT // 2):
            number = len(found)
            fate = _ODD.get((way, index), Fate.SUCCEED)
            example = _example(fate, files[number % len(files)], examples).copy(number, _steering(fate, number, chance))
            found.append(
                Parcel(number=number, way=way, fate=fate, example=example, body=_body(fate, number, example, targets[index % len(targets)]))
            )
    return found


def _example(fate: Fate, usual: Example, examples: Mapping[str, Example]) -> Example:
    if fate in {Fate.FLAKY, Fate.DOOMED, Fate.CANCELLED}:
        return examples["preprocess-cpu"].without_second_tries()
    return usual


def _steering(fate: Fate, number: int, chance: random.Random) -> dict[str, str]:
    steering = {"duration": f"{chance.uniform(0.5, 3.0):.2f}", "logs": f"parcel {number} begins\nparcel {number} ends"}
    match fate:
        case Fate.FLAKY:
            return steering | {"duration": "0.5", "exit-code": "1,1,0"}
        case Fate.DOOMED:
            return steering | {"duration": "0.5", "exit-code": "1"}
        case Fate.CANCELLED:
            return steering | {"hang": "true"}
        case _:
            return steering


def _body(fate: Fate, number: int, example: Example, region: str) -> dict[str, Any]:
    manifest = example.manifest
    if fate is Fate.REFUSED:
        manifest["spec"]["template"]["spec"]["hostNetwork"] = True
    body: dict[str, Any] = {
        "manifest": manifest,
        "target_region": region,
        "namespace": "gco-jobs",
        "priority": (number * 7) % 101,
        "labels": {LABEL: str(number)},
    }
    if example.supporting:
        body["supporting"] = example.supporting
    if fate is Fate.FLAKY:
        body["retry"] = {"max_attempts": 3, "backoff_seconds": 1}
    return body

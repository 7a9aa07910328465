"""Small views on Kubernetes objects, which are plain JSON dictionaries here.

Objects in the store are immutable by convention: a change builds a new dictionary that shares every unchanged part with
the old one. That is what makes a write cheap, and lets a watch hold the old and the new state without a copy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

Object = dict[str, Any]

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def to_json(value: Any) -> bytes:
    """The compact UTF-8 form of a JSON value."""
    return _encode(value).encode()


def thaw(value: Any) -> Any:
    """A deep copy that may be changed; several times faster than `copy.deepcopy` for JSON values."""
    return json.loads(_encode(value))


@lru_cache(maxsize=4096)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339(moment: float) -> str:
    """A unix time as Kubernetes' `metav1.Time`, which keeps whole seconds."""
    return _format_second(int(moment))


def rfc3339_nanoseconds(moment: float) -> str:
    """A unix time with nine digits after the point, as the kubelet stamps log lines."""
    second = int(moment)
    return f"{_format_second(second)[:-1]}.{int((moment - second) * 1_000_000):06d}000Z"


def find_condition(status: Mapping[str, Any], kind: str) -> Object | None:
    """The condition of that type, or None."""
    found: Object
    for found in status.get("conditions") or ():
        if found.get("type") == kind:
            return found
    return None


def holds(status: Mapping[str, Any], kind: str) -> bool:
    """Whether the condition of that type is there and `True`."""
    found = find_condition(status, kind)
    return found is not None and found.get("status") == "True"


def with_condition(conditions: Sequence[Object], new: Object) -> list[Object]:
    """The conditions with `new` in the place of the one of its type; its transition time stays when its status does."""
    result: list[Object] = []
    placed = False
    for old in conditions:
        if old["type"] != new["type"]:
            result.append(old)
            continue
        placed = True
        if old["status"] == new["status"]:
            new = {**new, "lastTransitionTime": old.get("lastTransitionTime", new.get("lastTransitionTime"))}
        result.append(new)
    if not placed:
        result.append(new)
    return result


def controller_of(obj: Object) -> Object | None:
    """The owner reference that says `controller: true`, or None."""
    reference: Object
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return reference
    return None

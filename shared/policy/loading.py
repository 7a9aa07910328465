"""The policy of an installation: its defaults, changed by a JSON file of the same names."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from shared.clusters.manifests import load_documents
from shared.clusters.quantities import parse_quantity
from shared.errors import InvalidError, Problem
from shared.policy.settings import Policy, Security

_QUANTITIES = ("max_cpu", "max_memory")
_PAIRS = ("main_kinds", "supporting_kinds")


def load_policy(path: Path | None) -> Policy:
    """The policy in a file, or the defaults without one. Quantities are written as Kubernetes writes them (`384`, `4096Gi`).

    Raises InvalidError that names each unknown or malformed setting, OSError where the file can't be read.
    """
    if path is None:
        return Policy()
    documents = load_documents(path.read_bytes(), content="json")
    if len(documents) != 1:
        raise InvalidError([Problem(pointer="", value=str(path), rule="must hold one object")])
    return policy_from(documents[0])


def policy_from(document: dict[str, Any]) -> Policy:
    """The policy that an object describes."""
    problems: list[Problem] = []
    defaults = Policy()
    known = {field.name: getattr(defaults, field.name) for field in fields(Policy)}
    given: dict[str, Any] = {}
    for name, value in document.items():
        if name not in known:
            rule = f"must be a setting of the policy: {', '.join(known)}"
            problems.append(Problem(pointer=f"/{name}", value=value, rule=rule))
        else:
            try:
                given[name] = _read(name, value, known[name])
            except (TypeError, ValueError) as error:
                problems.append(Problem(pointer=f"/{name}", value=value, rule=str(error)))
    if problems:
        raise InvalidError(problems)
    try:
        return Policy(**given)
    except ValueError as error:
        raise InvalidError([Problem(pointer="", value=None, rule=str(error))]) from None


def _read(name: str, value: Any, default: Any) -> Any:
    if name in _QUANTITIES:
        return Decimal(parse_quantity(value))
    if name in _PAIRS:
        return tuple(_pair(one) for one in _list(value))
    if isinstance(default, Security):
        if not isinstance(value, dict) or not all(isinstance(flag, bool) for flag in value.values()):
            raise TypeError("must be an object of booleans")
        return Security(**value)
    if isinstance(default, tuple):
        found = _list(value)
        if not all(isinstance(one, str) for one in found):
            raise TypeError("must be an array of strings")
        return tuple(found)
    if type(value) is not type(default):
        raise TypeError(f"must be {'true or false' if isinstance(default, bool) else 'an integer'}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("must be an array")
    return value


def _pair(value: Any) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(part, str) for part in value):
        raise TypeError('must hold pairs of apiVersion and kind, such as ["batch/v1", "Job"]')
    return value[0], value[1]

"""Whether a pod may run on a node: node selector, required affinity, taints. Nothing about what is free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.local.cluster.objects import Object


def _expression_holds(expression: Object, labels: Mapping[str, str]) -> bool:
    key: str = expression["key"]
    values: list[str] = expression.get("values") or []
    value = labels.get(key)
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case "Lt":
            return value is not None and int(value) < int(values[0])
        case _:
            return False


def _term_holds(term: Object, name: str, labels: Mapping[str, str]) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_expression_holds(expression, labels) for expression in expressions) and all(
        _expression_holds(expression, {"metadata.name": name}) for expression in fields
    )


def selects(spec: Object, name: str, labels: Mapping[str, str]) -> bool:
    """Whether the pod's node selector and required node affinity take the node."""
    for key, value in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != value:
            return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term_holds(term, name, labels) for term in required.get("nodeSelectorTerms") or ())


def _tolerates(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if not toleration.get("key"):
        return toleration.get("operator") == "Exists"
    if toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def untolerated(spec: Object, taints: Sequence[Object]) -> Object | None:
    """The first taint that keeps the pod off, or None."""
    tolerations: list[Any] = spec.get("tolerations") or []
    for taint in taints:
        repels = taint["effect"] in ("NoSchedule", "NoExecute")
        if repels and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None

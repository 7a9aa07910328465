"""Amounts of resources as whole numbers: CPU in thousandths, memory in bytes, everything else in pieces.

Whole numbers make adding and comparing exact and cheap; a scheduler does little else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any

from shared.clusters.quantities import parse_quantity
from workers.local.cluster.objects import Object

Amounts = dict[str, int]


@lru_cache(maxsize=4096)
def amount(resource: str, quantity: str | int | float) -> int:
    """The quantity of a resource, rounded up as the scheduler does. Raises ValueError for what is no quantity."""
    value = Decimal(parse_quantity(quantity))
    if resource == "cpu":
        value *= 1000
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def amounts(quantities: Mapping[str, Any] | None) -> Amounts:
    """Every quantity of a mapping such as `resources.requests`."""
    return {resource: amount(resource, quantity) for resource, quantity in (quantities or {}).items()}


def container_requests(container: Object) -> Amounts:
    """What a container requests."""
    resources = container.get("resources") or {}
    # A limit without a request stands for both (Kubernetes: "Requests and limits").
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def add(total: Amounts, more: Mapping[str, int]) -> None:
    """Add to a total in place."""
    for resource, number in more.items():
        total[resource] = total.get(resource, 0) + number


def _largest(parts: Iterable[Mapping[str, int]]) -> Amounts:
    result: Amounts = {}
    for part in parts:
        for resource, number in part.items():
            result[resource] = max(number, result.get(resource, 0))
    return result


def pod_requests(spec: Object) -> Amounts:
    """What a pod needs of a node: its containers together, or its largest init container, and one of the node's pods."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        add(total, container_requests(container))
    total = _largest([total, *(container_requests(container) for container in spec.get("initContainers") or ())])
    add(total, amounts(spec.get("overhead")))
    total["pods"] = 1
    return total

"""How lists inside objects merge: by which field their items are told apart.

Taken from the `x-kubernetes-list-map-keys` and `x-kubernetes-patch-merge-key` of the published OpenAPI schema, by the
field's name and, where one name stands for two kinds of list, by the shape of its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workers.local.cluster.answers import bad_request

_KEYS: dict[str, tuple[str, ...]] = {
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_SETS = frozenset({"finalizers"})
_ATOMIC_MAPS = frozenset({"selector", "nodeSelector", "labelSelector", "podSelector", "namespaceSelector", "fieldRef"})


def keys_of(field: str, items: Sequence[Any]) -> tuple[str, ...] | None:
    """The fields that identify an item of the list, or None where the list is replaced as a whole."""
    if field == "ports":
        return ("containerPort", "protocol") if any("containerPort" in item for item in items) else ("port", "protocol")
    return _KEYS.get(field)


def identity(item: Any, keys: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    """An item's identity; a port without a protocol is TCP. Raises a 400 where it is no plain value."""
    found = tuple((key, item.get(key, "TCP" if key == "protocol" else None)) for key in keys)
    for key, value in found:
        if isinstance(value, dict | list):
            raise bad_request(f"{key} must be a plain value")
    return found


def is_set(field: str) -> bool:
    """Whether the list is a set of plain values."""
    return field in _SETS


def is_atomic(field: str) -> bool:
    """Whether the map is replaced as a whole."""
    return field in _ATOMIC_MAPS

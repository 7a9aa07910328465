"""Where pods may run: the fleet's demand for a spot machine of one type, on top of what the user asked for."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from shared.clusters.names import EKS_CAPACITY, INSTANCE_TYPE, KARPENTER_CAPACITY

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, kw_only=True, slots=True)
class SpotRequest:
    """A job that runs on spot capacity of one instance type only, such as `p5.48xlarge`."""

    instance_type: str


def on_spot(pod: dict[str, Any], spot: SpotRequest) -> dict[str, Any]:
    """Return the pod's affinity, narrowed to spot nodes of the asked type.

    Spot nodes carry one label or another, by who started them, and terms of a node affinity are alternatives, so each of the user's terms
    is doubled: with the one label, and with the other. A term without any condition matches no node in Kubernetes; it is left out
    where others stand beside it, since a condition added would make it match.
    """
    affinity = deepcopy(pod.get("affinity") or {})
    node = affinity.get("nodeAffinity") or {}
    own_terms = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    if own_terms is None:
        terms: list[dict[str, Any]] = [{}]
    else:
        terms = [term for term in own_terms if term and (term.get("matchExpressions") or term.get("matchFields"))]
        if not terms:
            return affinity
    narrowed = [
        _narrowed(term, spot, key, value) for term in terms for key, value in ((EKS_CAPACITY, "SPOT"), (KARPENTER_CAPACITY, "spot"))
    ]
    affinity["nodeAffinity"] = {**node, _REQUIRED: {"nodeSelectorTerms": narrowed}}
    return affinity


def _narrowed(term: dict[str, Any], spot: SpotRequest, key: str, value: str) -> dict[str, Any]:
    wanted = [_is(INSTANCE_TYPE, spot.instance_type), _is(key, value)]
    return {**term, "matchExpressions": [*(term.get("matchExpressions") or []), *wanted]}


def _is(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}

"""What a cluster itself enforces in a namespace beside the policy: the ResourceQuotas and LimitRanges that its operator has made.

https://kubernetes.io/docs/concepts/policy/resource-quotas/ and https://kubernetes.io/docs/concepts/policy/limit-range/
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import NOTHING_DONE, ApiError
from shared.clusters.kinds import Kind
from shared.errors import FleetError

RESOURCE_QUOTA: Final = Kind(api_version="v1", kind="ResourceQuota", plural="resourcequotas")
LIMIT_RANGE: Final = Kind(api_version="v1", kind="LimitRange", plural="limitranges")

READ_SECONDS: Final = 5.0
"""How long all namespaces together may take; what isn't there by then is unavailable."""
_AT_ONCE: Final = 8
"""Requests; a policy may allow hundreds of namespaces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Enforcement:
    """What is enforced in one namespace, each by the object's name; or the `reason` why nobody could tell."""

    quotas: dict[str, dict[str, str]] = field(default_factory=dict)
    """`spec.hard`: the most that all of the namespace may have, by resource."""
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    """`status.used`: what it has of these."""
    limit_ranges: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """`spec.limits`."""
    reason: str | None = None


async def read_enforcement(api: KubernetesApi, namespaces: Sequence[str], *, seconds: float = READ_SECONDS) -> dict[str, Enforcement]:
    """What is enforced in each namespace. Raises nothing: one that can't be read says why, and hides no other."""
    permits = asyncio.Semaphore(_AT_ONCE)

    async def read(namespace: str, kind: Kind) -> list[dict[str, Any]] | str:
        try:
            async with asyncio.timeout(seconds), permits:
                return list((await api.request("GET", kind.path(namespace))).get("items") or [])
        except (FleetError, TimeoutError) as error:
            return _reason(error, seconds)

    asked = [read(namespace, kind) for namespace in namespaces for kind in (RESOURCE_QUOTA, LIMIT_RANGE)]
    answers = await asyncio.gather(*asked)
    return {namespace: _enforcement(*answers[2 * index : 2 * index + 2]) for index, namespace in enumerate(namespaces)}


def _enforcement(quotas: list[dict[str, Any]] | str, ranges: list[dict[str, Any]] | str) -> Enforcement:
    if isinstance(quotas, str):
        return Enforcement(reason=quotas)
    if isinstance(ranges, str):
        return Enforcement(reason=ranges)
    return Enforcement(
        quotas={_name(one): dict((one.get("spec") or {}).get("hard") or {}) for one in quotas},
        used={_name(one): dict((one.get("status") or {}).get("used") or {}) for one in quotas},
        limit_ranges={_name(one): list((one.get("spec") or {}).get("limits") or []) for one in ranges},
    )


def _reason(error: FleetError | TimeoutError, seconds: float) -> str:
    """What the cluster itself said is told; of how it is reached, nothing is."""
    if isinstance(error, (ApiError, *NOTHING_DONE)):
        return str(error)
    return f"the cluster did not answer within {seconds:g} s" if isinstance(error, TimeoutError) else "the cluster does not answer"


def _name(found: dict[str, Any]) -> str:
    return str(found["metadata"]["name"])

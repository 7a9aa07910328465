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
from shared.clusters.namespaces import has_namespace
from shared.errors import FleetError

RESOURCE_QUOTA: Final = Kind(api_version="v1", kind="ResourceQuota", plural="resourcequotas")
LIMIT_RANGE: Final = Kind(api_version="v1", kind="LimitRange", plural="limitranges")

READ_SECONDS: Final = 5.0
"""How long all namespaces together may take; what isn't there by then is unavailable."""
_AT_ONCE: Final = 8
"""Namespaces; a policy may allow hundreds of them."""


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
    """What is enforced in each namespace. Raises nothing: one that can't be read, or isn't there, says so, and hides no other."""
    permits = asyncio.Semaphore(_AT_ONCE)

    async def read(namespace: str) -> Enforcement:
        try:
            async with asyncio.timeout(seconds), permits:
                return await _of(api, namespace)
        except (FleetError, TimeoutError) as error:
            return Enforcement(reason=_reason(error, seconds))

    return dict(zip(namespaces, await asyncio.gather(*map(read, namespaces)), strict=True))


async def _of(api: KubernetesApi, namespace: str) -> Enforcement:
    quotas, ranges = [(await api.request("GET", kind.path(namespace))).get("items") or [] for kind in (RESOURCE_QUOTA, LIMIT_RANGE)]
    if not (quotas or ranges or await has_namespace(api, namespace)):
        return Enforcement(reason=f"the cluster has no namespace '{namespace}'")
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

"""Asks each real cluster once whether it answers the fleet's identity: a wrong address or token is told, not found out by waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shared.errors import FleetError

if TYPE_CHECKING:
    from shared.clusters.api import KubernetesApi

ASK_SECONDS = 8.0
"""For all of it: a credential plugin, the connection, the answers."""
_AT_ONCE = 8
"""Requests to a cluster."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """How it stands with a cluster: why it can't be used at this moment, or the namespaces that it doesn't have."""

    fault: str | None = None
    missing: tuple[str, ...] = ()


async def look(kubeconfig: Path, regions: Sequence[str], *, namespaces: Sequence[str], seconds: float = ASK_SECONDS) -> dict[str, Found]:
    """How it stands with the cluster of each region: one Job is listed, which every worker must be able to do, and each namespace read."""
    return dict(zip(regions, await asyncio.gather(*(_look(kubeconfig, region, namespaces, seconds) for region in regions)), strict=True))


async def _look(kubeconfig: Path, region: str, namespaces: Sequence[str], seconds: float) -> Found:
    from shared.clusters.client import connect
    from shared.clusters.kinds import JOB

    try:
        async with asyncio.timeout(seconds), connect(kubeconfig=kubeconfig, context=region) as api:
            await api.request("GET", JOB.path(next(iter(namespaces), None)), query={"limit": "1"})
            return Found(missing=await _missing(api, namespaces))
    except TimeoutError:
        return Found(fault=f"no answer within {seconds:g} s")
    except (FleetError, OSError, ValueError, TypeError, KeyError) as error:  # the library raises the latter about kubeconfigs
        return Found(fault=" ".join(str(error).split()) or type(error).__name__)


async def _missing(api: KubernetesApi, namespaces: Sequence[str]) -> tuple[str, ...]:
    """The namespaces that a cluster doesn't have. One that can't be read is taken to be there: whether it is, only its jobs will tell."""
    from shared.clusters.namespaces import has_namespace

    permits = asyncio.Semaphore(_AT_ONCE)

    async def there(namespace: str) -> bool:
        try:
            async with permits:
                return await has_namespace(api, namespace)
        except FleetError:
            return True

    answers = await asyncio.gather(*map(there, namespaces))
    return tuple(namespace for namespace, found in zip(namespaces, answers, strict=True) if not found)

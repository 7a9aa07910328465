"""Asks each real cluster once whether it answers the fleet's identity: a wrong address or token is told, not found out by waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from shared.errors import FleetError

ASK_SECONDS = 8.0
"""For all of it: a credential plugin, the connection, the answer."""


async def unreachable(kubeconfig: Path, regions: Sequence[str], *, namespace: str, seconds: float = ASK_SECONDS) -> dict[str, str]:
    """The regions whose clusters can't be used at this moment, and why, by listing one Job, which every worker must be able to do."""
    answers = await asyncio.gather(*(_why_not(kubeconfig, region, namespace, seconds) for region in regions))
    return {region: why for region, why in zip(regions, answers, strict=True) if why is not None}


async def _why_not(kubeconfig: Path, region: str, namespace: str, seconds: float) -> str | None:
    from shared.clusters.client import connect

    try:
        async with asyncio.timeout(seconds), connect(kubeconfig=kubeconfig, context=region) as api:
            await api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs", query={"limit": "1"})
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except (FleetError, OSError, ValueError, TypeError, KeyError) as error:  # the library raises the latter about kubeconfigs
        return " ".join(str(error).split()) or type(error).__name__
    return None

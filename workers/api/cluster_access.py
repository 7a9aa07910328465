"""Connections to the regions' clusters, made when first asked for: an API that nobody asks for logs stays small.

The Kubernetes package is imported here and then only. A connection is kept for each region, and closed at the end.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from shared.clusters.reaching import reach, reaches_any
from shared.errors import UnavailableError
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.clusters.api import KubernetesApi


class ClusterAccess:
    """The clusters that this process can reach: all of a kubeconfig, those that EKS knows, or the one that it runs in."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connections: dict[tuple[str, bool], KubernetesApi] = {}
        self._connecting = asyncio.Lock()
        self._stack = AsyncExitStack()

    @property
    def any(self) -> bool:
        """Whether there is a cluster that this process can reach at all."""
        return reaches_any(self._settings)

    async def api(self, region: str, *, streams: bool = False) -> KubernetesApi:
        """The API server of a region's cluster; for `streams` with a pool of its own, of any size. Raises UnavailableError."""
        if not self.any:
            raise UnavailableError("this process reaches no cluster")
        async with self._connecting:
            if (region, streams) not in self._connections:
                opened = reach(self._settings, region, pool_size=0 if streams else None)
                self._connections[region, streams] = await self._stack.enter_async_context(opened)
            return self._connections[region, streams]

    async def close(self) -> None:
        """Close all connections."""
        await self._stack.aclose()

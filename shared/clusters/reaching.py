"""Which cluster is a region's, and how this process reaches it: by a kubeconfig, by EKS, or because it runs there.

The library behind it takes half a second to load, and is loaded by the first that connects.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from shared.aws import connect as connect_aws
from shared.clock import Clock, SystemClock
from shared.errors import Problem, UnavailableError
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.clusters.api import KubernetesApi


def reaches_any(settings: Settings) -> bool:
    """Whether there is a cluster that this process can reach at all."""
    return settings.kubeconfig is not None or bool(settings.eks_clusters) or _in_cluster()


def _in_cluster() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ  # as Kubernetes tells every container


def missing_kubeconfig(settings: Settings) -> Problem | None:
    """That the kubeconfig which is set isn't there; its library would say something else."""
    if settings.kubeconfig is None or settings.kubeconfig.is_file():
        return None
    return Problem(pointer="GPUFLEET_KUBECONFIG", value=str(settings.kubeconfig), rule="must be a file; there is none at this path")


def cluster_told(settings: Settings, region: str) -> str:
    """What leads to a region's cluster, in words."""
    if settings.kubeconfig is not None:
        return f"context {region} of {settings.kubeconfig}"
    name = settings.eks_cluster(region)
    return f"EKS cluster {name}" if name is not None else "the cluster that this runs in"


@asynccontextmanager
async def reach(
    settings: Settings, region: str, *, pool_size: int | None = None, clock: Clock | None = None
) -> AsyncIterator[KubernetesApi]:
    """The API server of a region's cluster, over a pool of connections of its own (0: of any size).

    Raises UnavailableError where none of them leads there.
    """
    if (missing := missing_kubeconfig(settings)) is not None:
        raise UnavailableError(str(missing))
    name = settings.eks_cluster(region) if settings.kubeconfig is None else None
    if name is None and settings.kubeconfig is None and not _in_cluster():
        unset = "neither GPUFLEET_KUBECONFIG nor GPUFLEET_EKS_CLUSTERS is set"
        told = "GPUFLEET_EKS_CLUSTERS names none" if settings.eks_clusters else unset
        raise UnavailableError(f"this process knows no cluster of {region}: {told}, and it runs in none")
    from shared.clusters import client

    size = client.POOL_SIZE if pool_size is None else pool_size
    if name is None:
        context = region if settings.kubeconfig is not None else None
        async with client.connect(kubeconfig=settings.kubeconfig, context=context, pool_size=size, clock=clock) as api:
            yield api
        return
    from shared.clusters import eks

    async with connect_aws(region, *eks.SERVICES) as aws:
        cluster = await eks.describe(aws.eks, name=name, region=region)
        tokens = eks.EksTokens(aws.sts, cluster=name, clock=clock or SystemClock())
        async with client.connect_eks(cluster, tokens, pool_size=size, clock=clock) as api:
            yield api

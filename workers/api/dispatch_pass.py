"""One dispatch pass inside the API, for the GCO door's `poll`: what a dispatcher does at a doorbell, once, with the same code."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from workers.api.cluster_access import ClusterAccess
from workers.assembly import Core as Parts
from workers.process import owner


@dataclass(frozen=True, kw_only=True, slots=True)
class PolledJob:
    """What one dispatch pass did with one job: an outcome of `shared.jobs.dispatch`."""

    job_id: str
    status: str


Poll = Callable[[int], Awaitable[Sequence[PolledJob]]]
"""Runs one dispatch pass of at most so many jobs in the region that the API serves."""


class DispatchPass:
    """Claims and applies the best ready jobs of one region, when asked to."""

    def __init__(self, parts: Parts, access: ClusterAccess, region: str) -> None:
        self._parts = parts
        self._access = access
        self._region = region

    async def __call__(self, limit: int) -> list[PolledJob]:
        """One pass of at most `limit` jobs. Raises UnavailableError."""
        from shared.clusters.bundles import Bundles
        from shared.clusters.cluster import KubernetesCluster
        from shared.clusters.logs import ClusterLogs
        from shared.jobs.dispatch import Dispatch
        from shared.jobs.regions import ClaimGate
        from shared.jobs.stopping import Stopping
        from shared.store.regions import Regions

        parts, api, render = self._parts, await self._access.api(self._region), Bundles()
        cluster = KubernetesCluster(api, kueue_queue=parts.settings.kueue_queue)
        stopping = Stopping(
            region=self._region,
            store=parts.store,
            cluster=cluster,
            render=render,
            changes=parts.changes,
            logs=ClusterLogs(api, parts.objects),
            clock=parts.clock,
        )
        dispatch = Dispatch(
            region=self._region,
            owner=f"{owner(self._region)}/poll",
            store=parts.store,
            cluster=cluster,
            render=render,
            stopping=stopping,
            gate=ClaimGate(Regions(parts.table), self._region, open_seconds=0.0),
            changes=parts.changes,
            clock=parts.clock,
            ids=parts.ids,
            chance=parts.chance,
            lease=parts.settings.lease,
        )
        claimed, _ = await dispatch.claim(limit)
        outcomes = await dispatch.apply(claimed)
        return [PolledJob(job_id=one.head.id, status=outcome.value) for one, outcome in zip(claimed, outcomes, strict=True)]

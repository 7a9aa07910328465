"""An observer, put together for one region."""

from __future__ import annotations

from shared.clusters.api import KubernetesApi
from shared.clusters.bundles import Bundles
from shared.clusters.cluster import KubernetesCluster
from shared.clusters.feeds import job_feed, node_feed, pod_feed
from shared.clusters.logs import ClusterLogs
from shared.clusters.nodes import NodeView, report
from shared.clusters.pods import PodIndex, PodView
from shared.jobs.head_cache import HeadCache
from shared.jobs.observation import Observation
from shared.jobs.placement import ClusterReport
from shared.jobs.stopping import Stopping
from shared.store.cluster_reports import ClusterReports
from workers.assembly import Core
from workers.observer.loop import ObserverLoop
from workers.observer.usage import UsageAccount, where


def build(core: Core, api: KubernetesApi, *, region: str, usage: UsageAccount | None = None) -> ObserverLoop:
    """The loop of the observer of the cluster behind `api`; with `usage` it keeps that account, too, and tells what jobs have cost."""
    settings = core.settings
    meter = usage.meter if usage is not None else None
    index = PodIndex()
    logs = ClusterLogs(api, core.objects, pods=index)
    cluster = KubernetesCluster(api, kueue_queue=settings.kueue_queue)
    stopping = Stopping(
        region=region, store=core.store, cluster=cluster, render=Bundles(), changes=core.changes, logs=logs, clock=core.clock, meter=meter
    )
    observation = Observation(
        region=region,
        store=core.store,
        cluster=cluster,
        render=Bundles(),
        changes=core.changes,
        stopping=stopping,
        logs=logs,
        heads=HeadCache(core.store),
        clock=core.clock,
        grace=settings.lease * 1.5,
        meter=meter,
    )
    reports = ClusterReports(core.table)

    async def tell(nodes: list[NodeView], pods: list[PodView]) -> None:
        found = report(region, nodes, pods, at=core.clock.now())
        free = max(0, found.gpus_allocatable - found.gpus_used)
        await reports.put(
            ClusterReport(region=region, at=found.reported_at, nodes=len(found.nodes), gpus_total=found.gpus_allocatable, gpus_free=free)
        )

    return ObserverLoop(
        observation=observation,
        jobs=job_feed(api),
        pods=pod_feed(api, usage=where(region) if usage else None),
        nodes=node_feed(api, usage=where(region) if usage else None),
        usage=usage,
        index=index,
        report=tell,
        grace_seconds=settings.shutdown_seconds,
    )

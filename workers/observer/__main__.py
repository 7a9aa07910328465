"""`python -m workers.observer --region R`: the observer of a region. A second one may run beside it."""

from __future__ import annotations

import argparse
import asyncio

from shared.aws import connect
from shared.clusters import client
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
from shared.logging import configure
from shared.settings import Settings
from shared.store.cluster_reports import ClusterReports
from workers.assembly import assemble
from workers.observer.loop import ObserverLoop
from workers.process import serve


async def main(region: str, stop: asyncio.Event) -> None:
    """Observe the cluster of a region until asked to stop."""
    settings = Settings()
    configure(settings.log_level, worker="observer", region=region)
    context = region if settings.kubeconfig else None
    async with (
        connect(settings.control_region, "dynamodb", "sqs", "s3") as aws,
        client.connect(kubeconfig=settings.kubeconfig, context=context) as api,
    ):
        core = await assemble(settings, aws, regions=[region])
        index = PodIndex()
        logs = ClusterLogs(api, core.objects, pods=index)
        cluster = KubernetesCluster(api, kueue_queue=settings.kueue_queue)
        stopping = Stopping(store=core.store, cluster=cluster, render=Bundles(), changes=core.changes, logs=logs, clock=core.clock)
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
        )
        reports = ClusterReports(core.table)

        async def tell(nodes: list[NodeView], pods: list[PodView]) -> None:
            found = report(region, nodes, pods, at=core.clock.now())
            await reports.put(
                ClusterReport(
                    region=region,
                    at=found.reported_at,
                    nodes=len(found.nodes),
                    gpus_total=found.gpus_allocatable,
                    gpus_free=max(0, found.gpus_allocatable - found.gpus_used),
                )
            )

        await ObserverLoop(
            observation=observation,
            jobs=job_feed(api),
            pods=pod_feed(api),
            nodes=node_feed(api),
            index=index,
            report=tell,
            grace_seconds=settings.shutdown_seconds,
        ).run(stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", required=True)
    arguments = parser.parse_args()
    serve(lambda stop: main(arguments.region, stop))

"""Workers in this process, put together as their programs do it, for measurements that choose what programs don't let them choose."""

from __future__ import annotations

from bench.stage import REGION, Fleet, Stage
from shared.clusters.api import KubernetesApi
from shared.clusters.bundles import Bundles
from shared.clusters.cluster import KubernetesCluster
from shared.clusters.feeds import job_feed, node_feed, pod_feed
from shared.clusters.logs import ClusterLogs
from shared.clusters.nodes import NodeView, report
from shared.clusters.pods import PodIndex, PodView
from shared.jobs.dispatch import Dispatch
from shared.jobs.head_cache import HeadCache
from shared.jobs.observation import Observation
from shared.jobs.placement import ClusterReport
from shared.jobs.stopping import Stopping
from shared.jobs.sweeping import Sweeper
from shared.jobs.waking import Waking
from shared.queues.queue import Queue
from shared.settings import dead_letter_queue
from shared.spot_prices import FileSpotPrices
from shared.store.cluster_reports import ClusterReports
from workers.dispatcher.loop import DispatcherLoop
from workers.observer.loop import REPORT_SECONDS, RESYNC_SECONDS, ObserverLoop
from workers.sweeper.loop import SweeperLoop


async def dispatcher(fleet: Fleet, api: KubernetesApi, *, owner: str = "bench", grace_seconds: float = 5.0) -> DispatcherLoop:
    """`python -m workers.dispatcher`."""
    core, settings = fleet.core, fleet.settings
    cluster = KubernetesCluster(api)
    stopping = Stopping(
        store=core.store,
        cluster=cluster,
        render=Bundles(),
        changes=core.changes,
        logs=ClusterLogs(api, core.objects),
        clock=core.clock,
    )
    dispatch = Dispatch(
        region=REGION,
        owner=owner,
        store=core.store,
        cluster=cluster,
        render=Bundles(),
        stopping=stopping,
        changes=core.changes,
        clock=core.clock,
        ids=core.ids,
        chance=core.chance,
        lease=settings.lease,
    )
    name = settings.dispatch_queue(REGION)
    return DispatcherLoop(
        queue=await Queue.open(fleet.clients.sqs, name),
        dead_letters=await Queue.open(fleet.clients.sqs, dead_letter_queue(name)),
        dispatch=dispatch,
        stopping=stopping,
        waking=Waking(store=core.store, changes=core.changes, doorbell=core.doorbell, clock=core.clock),
        slots=settings.dispatch_slots,
        grace_seconds=grace_seconds,
    )


def observer(fleet: Fleet, api: KubernetesApi, *, faster: float = 1.0) -> ObserverLoop:
    """`python -m workers.observer`, its intervals shortened by a factor."""
    core = fleet.core
    index = PodIndex()
    logs = ClusterLogs(api, core.objects, pods=index)
    cluster = KubernetesCluster(api)
    observation = Observation(
        region=REGION,
        store=core.store,
        cluster=cluster,
        render=Bundles(),
        changes=core.changes,
        stopping=Stopping(store=core.store, cluster=cluster, render=Bundles(), changes=core.changes, logs=logs, clock=core.clock),
        logs=logs,
        heads=HeadCache(core.store),
        clock=core.clock,
        grace=fleet.settings.lease * 1.5,
    )
    reports = ClusterReports(core.table)

    async def tell(nodes: list[NodeView], pods: list[PodView]) -> None:
        found = report(REGION, nodes, pods, at=core.clock.now())
        await reports.put(
            ClusterReport(
                region=REGION,
                at=found.reported_at,
                nodes=len(found.nodes),
                gpus_total=found.gpus_allocatable,
                gpus_free=max(0, found.gpus_allocatable - found.gpus_used),
            )
        )

    return ObserverLoop(
        observation=observation,
        jobs=job_feed(api),
        pods=pod_feed(api),
        nodes=node_feed(api),
        index=index,
        report=tell,
        grace_seconds=1.0,
        resync_seconds=RESYNC_SECONDS / faster,
        report_seconds=REPORT_SECONDS / faster,
    )


def sweeper(fleet: Fleet, place: Stage, *, faster: float = 1.0) -> SweeperLoop:
    """`python -m workers.sweeper`, its interval shortened by a factor."""
    core, settings = fleet.core, fleet.settings
    prices = FileSpotPrices(place.scratch / "no-prices.json")
    return SweeperLoop(
        sweeper=Sweeper(
            store=core.store, changes=core.changes, doorbell=core.doorbell, prices=prices, clock=core.clock, lease=settings.lease
        ),
        regions=settings.regions,
        clock=core.clock,
        idle_seconds=settings.sweep_seconds / faster,
    )

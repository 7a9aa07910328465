"""A dispatcher, put together for one region."""

from __future__ import annotations

from typing import Any

from shared.clusters.api import KubernetesApi
from shared.clusters.bundles import Bundles
from shared.clusters.cluster import KubernetesCluster
from shared.clusters.logs import ClusterLogs
from shared.jobs.dispatch import Dispatch
from shared.jobs.regions import ClaimGate
from shared.jobs.stopping import Stopping
from shared.jobs.waking import Waking
from shared.queues.queue import Queue
from shared.settings import dead_letter_queue
from shared.store.regions import Regions
from workers.assembly import Core
from workers.dispatcher.loop import VISIBILITY, DispatcherLoop


async def build(core: Core, sqs: Any, api: KubernetesApi, *, region: str, owner: str, visibility: int = VISIBILITY) -> DispatcherLoop:
    """The loop of one dispatcher over the cluster behind `api`."""
    settings = core.settings
    cluster = KubernetesCluster(api, kueue_queue=settings.kueue_queue)
    stopping = Stopping(
        region=region,
        store=core.store,
        cluster=cluster,
        render=Bundles(),
        changes=core.changes,
        logs=ClusterLogs(api, core.objects),
        clock=core.clock,
    )
    dispatch = Dispatch(
        region=region,
        owner=owner,
        store=core.store,
        cluster=cluster,
        render=Bundles(),
        stopping=stopping,
        gate=ClaimGate(Regions(core.table), region),
        changes=core.changes,
        clock=core.clock,
        ids=core.ids,
        chance=core.chance,
        lease=settings.lease,
    )
    name = settings.dispatch_queue(region)
    return DispatcherLoop(
        queue=await Queue.open(sqs, name),
        dead_letters=await Queue.open(sqs, dead_letter_queue(name)),
        dispatch=dispatch,
        stopping=stopping,
        waking=Waking(region=region, store=core.store, changes=core.changes, doorbell=core.doorbell, clock=core.clock),
        slots=settings.dispatch_slots,
        grace_seconds=settings.shutdown_seconds,
        visibility=visibility,
    )

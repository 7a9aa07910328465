"""`python -m workers.dispatcher --region R`: one dispatcher of a region. Any number may run beside it."""

from __future__ import annotations

import argparse
import asyncio

from shared.aws import connect
from shared.clusters import client
from shared.clusters.bundles import Bundles
from shared.clusters.cluster import KubernetesCluster
from shared.clusters.logs import ClusterLogs
from shared.jobs.dispatch import Dispatch
from shared.jobs.stopping import Stopping
from shared.jobs.waking import Waking
from shared.logging import configure
from shared.queues.queue import Queue
from shared.settings import Settings, dead_letter_queue
from workers.assembly import assemble
from workers.dispatcher.loop import DispatcherLoop
from workers.process import owner, serve


async def main(region: str, stop: asyncio.Event) -> None:
    """Dispatch the jobs of a region until asked to stop."""
    settings = Settings()
    configure(settings.log_level, worker="dispatcher", region=region)
    context = region if settings.kubeconfig else None
    async with (
        connect(settings.control_region, "dynamodb", "sqs", "s3") as aws,
        client.connect(kubeconfig=settings.kubeconfig, context=context, pool_size=settings.dispatch_slots) as api,
    ):
        core = await assemble(settings, aws, regions=[region])
        cluster = KubernetesCluster(api, kueue_queue=settings.kueue_queue)
        stopping = Stopping(
            store=core.store,
            cluster=cluster,
            render=Bundles(),
            changes=core.changes,
            logs=ClusterLogs(api, core.objects),
            clock=core.clock,
        )
        dispatch = Dispatch(
            region=region,
            owner=owner(region),
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
        name = settings.dispatch_queue(region)
        await DispatcherLoop(
            queue=await Queue.open(aws.sqs, name),
            dead_letters=await Queue.open(aws.sqs, dead_letter_queue(name)),
            dispatch=dispatch,
            stopping=stopping,
            waking=Waking(store=core.store, changes=core.changes, doorbell=core.doorbell, clock=core.clock),
            slots=settings.dispatch_slots,
            grace_seconds=settings.shutdown_seconds,
        ).run(stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", required=True)
    arguments = parser.parse_args()
    serve(lambda stop: main(arguments.region, stop))

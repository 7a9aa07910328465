"""`python -m workers.costs`: reports what everything cost, window by window, for all regions. Any number may run."""

from __future__ import annotations

import asyncio

from shared.aws import connect
from shared.clock import SystemClock
from shared.queues.queue import Queue
from shared.settings import Settings
from shared.store.beats import Beats
from shared.store.table import Table
from workers.beating import beating
from workers.costs.build import SERVICES, build
from workers.costs.loop import CostLoop
from workers.probing import LoopVitals, probed
from workers.process import serve


async def main(stop: asyncio.Event) -> None:
    """Report until asked to stop."""
    settings = Settings()
    async with connect(settings.control_region, *SERVICES, "dynamodb") as aws:
        loop = CostLoop(
            work=await build(settings, aws),
            queue=await Queue.open(aws.sqs, settings.tasks_queue),
            regions=settings.regions,
            grace_seconds=settings.shutdown_seconds,
        )
        async with (
            beating(Beats(Table(aws.dynamodb, settings.table)), loop.passes, worker="costs", clock=SystemClock()),
            probed(settings, LoopVitals(loop.passes), stop),
        ):
            await loop.run(stop)


if __name__ == "__main__":
    serve(main, worker="costs")

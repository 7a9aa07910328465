"""`python -m workers.metrics [--region R]…`: reads the GPUs of regions, all unless said, and serves `/metrics`. One worker a region."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from shared.aws import connect
from shared.clock import SystemClock
from shared.settings import Settings
from shared.store.beats import Beats
from shared.store.table import Table
from workers.beating import beating
from workers.metrics.worker import SERVICES, metrics_worker
from workers.probing import LoopVitals, probed
from workers.process import serve


async def main(regions: Sequence[str], stop: asyncio.Event) -> None:
    """Measure until asked to stop."""
    settings = Settings()
    async with AsyncExitStack() as stack:
        aws = await stack.enter_async_context(connect(settings.control_region, *SERVICES))
        worker = await stack.enter_async_context(metrics_worker(settings, aws, regions or settings.regions))
        beats = Beats(Table(aws.dynamodb, settings.table))
        await stack.enter_async_context(beating(beats, worker.passes, worker="metrics", clock=SystemClock()))
        await stack.enter_async_context(probed(settings, LoopVitals(worker.passes), stop))
        await worker.run(stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--region", action="append", default=[])
    arguments = parser.parse_args()
    serve(lambda stop: main(arguments.region, stop), worker="metrics")

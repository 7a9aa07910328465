"""`python -m workers.ingest`: takes jobs from the submissions queue. Any number may run."""

from __future__ import annotations

import asyncio

from shared.aws import connect
from shared.clock import SystemClock
from shared.queues.queue import Queue
from shared.settings import Settings
from shared.store.beats import Beats
from shared.store.table import Table
from workers.beating import beating
from workers.ingest.ingest import build
from workers.ingest.loop import IngestLoop
from workers.probing import LoopVitals, probed
from workers.process import serve


async def main(stop: asyncio.Event) -> None:
    """Ingest until asked to stop."""
    settings = Settings()
    async with connect(settings.control_region, "dynamodb", "sqs", "s3") as aws:
        ingest = await build(settings, aws)
        queue = await Queue.open(aws.sqs, settings.submissions_queue)
        loop = IngestLoop(queue=queue, ingest=ingest, grace_seconds=settings.shutdown_seconds)
        beats = Beats(Table(aws.dynamodb, settings.table))
        async with (
            beating(beats, loop.passes, worker="ingest", clock=SystemClock()),
            probed(settings, LoopVitals(loop.passes), stop),
        ):
            await loop.run(stop)


if __name__ == "__main__":
    serve(main, worker="ingest")

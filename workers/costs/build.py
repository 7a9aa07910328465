"""The cost worker, put together from settings and clients."""

from __future__ import annotations

from typing import Final

from shared.aws import Aws
from shared.clock import Clock
from shared.queues.queue import Queue
from shared.settings import Settings, dead_letter_queue
from workers.costing import costing
from workers.costs.work import CostWork, RegionWork

SERVICES: Final = ("sqs", "s3")


async def build(settings: Settings, aws: Aws, *, clock: Clock | None = None) -> CostWork:
    """What the loop and the handler do. Raises NotFoundError where the queue is missing (bootstrap makes it)."""
    parts = costing(settings, aws, clock=clock)
    return CostWork(
        regions={region: RegionWork(reports=parts.reporter(region), backlog=parts.backlog(region)) for region in settings.regions},
        dead_letters=await Queue.open(aws.sqs, dead_letter_queue(settings.tasks_queue)),
        clock=parts.clock,
        length=parts.length,
    )

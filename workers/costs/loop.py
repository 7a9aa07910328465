"""The cost worker's loops: one over the queue, and one for each region that looks once a minute whether a window is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from shared.errors import FleetError
from shared.queues.queue import Queue
from workers.batches import BatchLoop
from workers.costs.work import CostWork, Outcome
from workers.loops import AllPasses, Passes

log = structlog.get_logger()

TICK_SECONDS: Final = 60.0
"""As in GCO. A look costs some ten requests of S3 for each region."""


class CostLoop:
    """Makes reports until it is stopped: then the report that has been begun is finished, and none is begun."""

    def __init__(
        self, *, work: CostWork, queue: Queue, regions: Sequence[str], grace_seconds: float, tick_seconds: float = TICK_SECONDS
    ) -> None:
        self._work = work
        self._queue = queue
        self._regions = regions
        self._grace_seconds = grace_seconds
        self._tick_seconds = tick_seconds
        self._passes = {region: Passes() for region in regions}
        self.passes = AllPasses(list(self._passes.values()))

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        self._work.enough = stop.is_set
        messages = BatchLoop(queue=self._queue, handler=self._work, left=Outcome.LEFT, grace_seconds=self._grace_seconds, batches=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(messages.run(stop))
            for region in self._regions:
                group.create_task(self._look_forever(region, stop))

    async def _look_forever(self, region: str, stop: asyncio.Event) -> None:
        looking: asyncio.Task[None] | None = None
        while not stop.is_set():
            looking = asyncio.create_task(self._look(region))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait([looking, stopping], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait([looking], timeout=self._grace_seconds if stop.is_set() else None)
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await asyncio.wait([stopping], timeout=self._tick_seconds)
            stopping.cancel()

    async def _look(self, region: str) -> None:
        passes = self._passes[region]
        passes.begin()
        try:
            await self._work.due(region)
            passes.succeed()
        except FleetError as error:
            log.warning("reports not made yet", region=region, error=str(error))
            passes.fail(error)
        except Exception as error:
            log.exception("reports not made", region=region)
            passes.fail(error)

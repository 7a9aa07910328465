"""`python -m workers.sweeper`: one sweeper for all regions. A second one may run beside it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

from shared.aws import connect
from shared.jobs.ports import SpotPrices
from shared.jobs.sweeping import Sweeper
from shared.settings import Settings
from shared.spot_prices import Ec2SpotPrices, FileSpotPrices
from workers.assembly import assemble
from workers.process import serve
from workers.sweeper.loop import SweeperLoop


async def main(stop: asyncio.Event) -> None:
    """Sweep every region until asked to stop."""
    settings = Settings()
    async with AsyncExitStack() as stack:
        aws = await stack.enter_async_context(connect(settings.control_region, "dynamodb", "sqs", "s3"))
        core = await assemble(settings, aws)
        prices: SpotPrices
        if settings.spot_prices_file is not None:
            prices = FileSpotPrices(settings.spot_prices_file)
        else:
            regional = {region: await stack.enter_async_context(connect(region, "ec2")) for region in settings.regions}
            prices = Ec2SpotPrices({region: clients.ec2 for region, clients in regional.items()}, core.clock)
        sweeper = Sweeper(
            store=core.store,
            changes=core.changes,
            doorbell=core.doorbell,
            prices=prices,
            clock=core.clock,
            lease=settings.lease,
            idle=timedelta(seconds=settings.sweep_seconds),
        )
        await SweeperLoop(sweeper=sweeper, regions=settings.regions, clock=core.clock, idle_seconds=settings.sweep_seconds).run(stop)


if __name__ == "__main__":
    serve(main, worker="sweeper")

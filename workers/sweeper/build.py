"""A sweeper, put together for all regions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from shared.aws import connect
from shared.jobs.ports import SpotPrices
from shared.jobs.sweeping import Sweeper
from shared.spot_prices import Ec2SpotPrices, FileSpotPrices
from workers.assembly import Core
from workers.sweeper.loop import SweeperLoop


@asynccontextmanager
async def build(core: Core) -> AsyncIterator[SweeperLoop]:
    """The loop of a sweeper over all regions, with clients of EC2 of its own where prices come from there."""
    settings = core.settings
    async with AsyncExitStack() as stack:
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
        yield SweeperLoop(sweeper=sweeper, regions=settings.regions, clock=core.clock, idle_seconds=settings.sweep_seconds)

"""A sweeper, put together for all regions."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from shared.aws import Aws
from shared.jobs.draining import Draining
from shared.jobs.placement import RegionPlacement
from shared.jobs.ports import SpotPrices
from shared.jobs.sweeping import Sweeper
from shared.spot_prices import Ec2SpotPrices, FileSpotPrices
from shared.store.counters import Counters
from shared.store.regions import Regions
from workers.assembly import Core
from workers.sweeper.loop import SweeperLoop

SERVICES: Final = ("dynamodb", "sqs", "s3")


def sweeper(core: Core, aws: Aws) -> Sweeper:
    """A sweeper of any region. Each region's EC2 is connected when a job first waits for a price there."""
    settings = core.settings
    prices: SpotPrices
    if settings.spot_prices_file is not None:
        prices = FileSpotPrices(settings.spot_prices_file)
    else:
        prices = Ec2SpotPrices({region: aws.elsewhere("ec2", region) for region in settings.regions}, core.clock)
    return Sweeper(
        store=core.store,
        changes=core.changes,
        doorbell=core.doorbell,
        prices=prices,
        draining=draining(core),
        clock=core.clock,
        lease=settings.lease,
        idle=timedelta(seconds=settings.sweep_seconds),
    )


def draining(core: Core) -> Draining:
    """What a sweeper does about drained regions."""
    regions = Regions(core.table)
    backlog = Counters(core.table, core.layout)
    placement = RegionPlacement(regions=core.settings.regions, facts=regions, backlog=backlog, clock=core.clock)
    return Draining(store=core.store, statuses=regions, placement=placement, changes=core.changes, doorbell=core.doorbell, clock=core.clock)


def build(core: Core, aws: Aws) -> SweeperLoop:
    """The loop of a sweeper over all regions."""
    settings = core.settings
    return SweeperLoop(sweeper=sweeper(core, aws), regions=settings.regions, clock=core.clock, idle_seconds=settings.sweep_seconds)

"""Where an installation's prices come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.aws import Aws
from shared.clock import Clock
from shared.costs.price_list import ENDPOINT_REGION, PriceList
from shared.costs.price_table import PriceTable
from shared.costs.prices import ByCapacity, FirstThatKnows, PriceSource
from shared.costs.spot_rates import Ec2SpotRates, FileSpotRates
from shared.settings import Settings
from shared.spot_prices import FileSpotPrices


def price_source(settings: Settings, *, ec2: Mapping[str, Any], pricing: Any, clock: Clock) -> PriceSource:
    """EC2's history for spot machines, the price list and then the table for those on demand.

    Where a file has the spot prices, AWS can't be asked: then it is the file and the table, and the clients, `ec2` for each region and
    `pricing` in `price_list.ENDPOINT_REGION`, aren't used.
    """
    if settings.spot_prices_file is not None:
        return ByCapacity(spot=FileSpotRates(FileSpotPrices(settings.spot_prices_file), clock), on_demand=PriceTable())
    return ByCapacity(spot=Ec2SpotRates(ec2), on_demand=FirstThatKnows((PriceList(pricing, clock), PriceTable())))


def region_prices(settings: Settings, aws: Aws, region: str, clock: Clock) -> PriceSource:
    """The prices of a region's machines. Clients are connected when they are first asked something."""
    asked = settings.spot_prices_file is None
    return price_source(
        settings,
        ec2={region: aws.elsewhere("ec2", region)} if asked else {},
        pricing=aws.elsewhere("pricing", ENDPOINT_REGION) if asked else None,
        clock=clock,
    )

"""What spot machines cost: from EC2's price history, or from a file where EC2 can't be asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from shared.clock import Clock
from shared.costs.model import Rate, Window
from shared.costs.prices import Machine
from shared.errors import UnavailableError
from shared.spot_prices import FileSpotPrices, spot_history

HISTORY: Final = "ec2-spot-history"
LOWEST_ZONE: Final = "ec2-spot-history-lowest-zone"
"""The source of a price where the machine's zone isn't known: the lowest of the region's at each time."""
FILE: Final = "file"


class Ec2SpotRates:
    """The price history of a machine's zone. EC2 keeps it for 90 days; of what was before nothing is known.

    `clients` are EC2 clients by region; of a region without one nothing is known, either.
    """

    def __init__(self, clients: Mapping[str, Any]) -> None:
        self._clients = clients

    async def rates(self, machine: Machine, window: Window) -> Sequence[Rate]:
        """As `PriceSource`. One call for each thousand changes of the price."""
        client = self._clients.get(machine.region)
        if client is None:
            return ()
        history = spot_history(client, machine.instance_type, start=window.start, end=window.end, zone=machine.zone)
        try:
            told = sorted([(at, zone, price) async for zone, at, price in history])
        except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"spot price history of {machine.instance_type} in {machine.region}: {error}") from error
        source = HISTORY if machine.zone else LOWEST_ZONE
        return [Rate(start=at, usd_per_hour=price, source=source, as_of=at.date()) for at, price in _lowest(told)]


def _lowest(told: Sequence[tuple[datetime, str, Decimal]]) -> list[tuple[datetime, Decimal]]:
    """The lowest price of all zones, since when it was that."""
    found: list[tuple[datetime, Decimal]] = []
    current: dict[str, Decimal] = {}
    for at, zone, price in told:
        current[zone] = price
        lowest = min(current.values())
        if found and found[-1][0] == at:
            found.pop()
        if not found or found[-1][1] != lowest:
            found.append((at, lowest))
    return found


class FileSpotRates:
    """The prices of the file that spot jobs are held to (`GPUFLEET_SPOT_PRICES_FILE`). It has no history: what it says now holds for all
    of a window."""

    def __init__(self, prices: FileSpotPrices, clock: Clock) -> None:
        self._prices = prices
        self._clock = clock

    async def rates(self, machine: Machine, window: Window) -> Sequence[Rate]:
        """As `PriceSource`."""
        price = await self._prices.price(machine.region, machine.instance_type)
        return [] if price is None else [Rate(start=window.start, usd_per_hour=price, source=FILE, as_of=self._clock.now().date())]

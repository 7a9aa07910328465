"""What spot capacity costs now: from EC2's price history, or from a file where EC2 can't be asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import structlog
from botocore.exceptions import BotoCoreError, ClientError

from shared.clock import Clock

log = structlog.get_logger()

LOOK_BACK = timedelta(hours=4)
CACHED_FOR = timedelta(seconds=60)
PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


class Ec2SpotPrices:
    """The lowest of the zones' newest prices. An answer is kept for a minute, since many jobs ask for the same type."""

    def __init__(self, clients: Mapping[str, Any], clock: Clock) -> None:
        self._clients = clients
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[datetime, Decimal | None]] = {}

    async def price(self, region: str, instance_type: str) -> Decimal | None:
        """USD an hour; None where EC2 knows none or does not answer: then a job goes on waiting."""
        now = self._clock.now()
        known = self._known.get((region, instance_type))
        if known is not None and now - known[0] < CACHED_FOR:
            return known[1]
        try:
            found = await self._ask(region, instance_type, now)
        except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
            log.warning("spot price unknown", region=region, instance_type=instance_type, error=str(error))
            return None
        self._known[region, instance_type] = (now, found)
        return found

    async def _ask(self, region: str, instance_type: str, now: datetime) -> Decimal | None:
        newest: dict[str, tuple[datetime, Decimal]] = {}
        async for zone, at, price in spot_history(self._clients[region], instance_type, start=now - LOOK_BACK, end=now):
            if zone not in newest or newest[zone][0] < at:
                newest[zone] = (at, price)
        return min((price for _, price in newest.values()), default=None)


async def spot_history(
    client: Any, instance_type: str, *, start: datetime, end: datetime, zone: str | None = None
) -> AsyncIterator[tuple[str, datetime, Decimal]]:
    """Every price that held in a time, and the zone and the time since when: for each zone the one that held at `start`, too.

    Raises what the client raises. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
    """
    pages = client.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=[instance_type],
        ProductDescriptions=list(PRODUCTS),
        StartTime=start,
        EndTime=end,
        **({"AvailabilityZone": zone} if zone else {}),
    )
    async for page in pages:
        for entry in page["SpotPriceHistory"]:
            yield entry["AvailabilityZone"], entry["Timestamp"], Decimal(entry["SpotPrice"])


class FileSpotPrices:
    """Prices from a JSON file, `{region: {instance type: price}}`, read anew each time so that an edit takes effect."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def price(self, region: str, instance_type: str) -> Decimal | None:
        """USD an hour; None where the file doesn't name the type."""
        try:
            prices = json.loads(self._path.read_text(), parse_float=Decimal, parse_int=Decimal)
        except (OSError, ValueError) as error:
            log.warning("spot prices unreadable", path=str(self._path), error=str(error))
            return None
        found = prices.get(region, {}).get(instance_type)
        return Decimal(found) if found is not None else None

"""What spot capacity costs now: from EC2's price history, or from a file where EC2 can't be asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
        pages = (
            self._clients[region]
            .get_paginator("describe_spot_price_history")
            .paginate(InstanceTypes=[instance_type], ProductDescriptions=list(PRODUCTS), StartTime=now - LOOK_BACK, EndTime=now)
        )
        async for page in pages:
            for entry in page["SpotPriceHistory"]:
                zone, at, price = entry["AvailabilityZone"], entry["Timestamp"], Decimal(entry["SpotPrice"])
                if zone not in newest or newest[zone][0] < at:
                    newest[zone] = (at, price)
        return min((price for _, price in newest.values()), default=None)


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

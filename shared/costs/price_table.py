"""What machines cost on demand where nobody can be asked: a table that came with this program, and grows old.

Linux, shared tenancy, USD an hour, as of https://aws.amazon.com/ec2/pricing/on-demand/ on `AS_OF`. us-east-1, us-east-2 and us-west-2 cost
the same. What isn't in it has no price: a guess would look like one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Final

from shared.costs.model import CapacityType, Rate, Window
from shared.costs.prices import Machine

TABLE: Final = "table"
AS_OF: Final = date(2026, 7, 28)

_US: Final = ("us-east-1", "us-east-2", "us-west-2")
_IRELAND: Final = ("eu-west-1",)

_GPU_TYPES: Final[Mapping[tuple[str, ...], Mapping[str, str]]] = {
    _US: {
        "g4ad.xlarge": "0.37853",
        "g4ad.2xlarge": "0.54117",
        "g4ad.4xlarge": "0.867",
        "g4ad.8xlarge": "1.734",
        "g4ad.16xlarge": "3.468",
        "g4dn.xlarge": "0.526",
        "g4dn.2xlarge": "0.752",
        "g4dn.4xlarge": "1.204",
        "g4dn.8xlarge": "2.176",
        "g4dn.12xlarge": "3.912",
        "g4dn.16xlarge": "4.352",
        "g4dn.metal": "7.824",
        "g5.xlarge": "1.006",
        "g5.2xlarge": "1.212",
        "g5.4xlarge": "1.624",
        "g5.8xlarge": "2.448",
        "g5.12xlarge": "5.672",
        "g5.16xlarge": "4.096",
        "g5.24xlarge": "8.144",
        "g5.48xlarge": "16.288",
        "g6.xlarge": "0.8048",
        "g6.2xlarge": "0.9776",
        "g6.4xlarge": "1.3232",
        "g6.8xlarge": "2.0144",
        "g6.12xlarge": "4.6016",
        "g6.16xlarge": "3.3968",
        "g6.24xlarge": "6.6752",
        "g6.48xlarge": "13.3504",
        "g6e.xlarge": "1.861",
        "g6e.2xlarge": "2.24208",
        "g6e.4xlarge": "3.00424",
        "g6e.8xlarge": "4.52856",
        "g6e.12xlarge": "10.49264",
        "g6e.16xlarge": "7.57719",
        "g6e.24xlarge": "15.06559",
        "g6e.48xlarge": "30.13118",
        "p3.2xlarge": "3.06",
        "p3.8xlarge": "12.24",
        "p3.16xlarge": "24.48",
        "p4d.24xlarge": "21.957642",
        "p4de.24xlarge": "27.44705",
        "p5.48xlarge": "55.04",
        "p5en.48xlarge": "63.296",
    },
    _IRELAND: {
        "g4dn.xlarge": "0.587",
        "g5.xlarge": "1.123",
        "g5.2xlarge": "1.35296",
        "g5.12xlarge": "6.33167",
        "g5.16xlarge": "4.57237",
        "g5.24xlarge": "9.09117",
    },
}

_LARGE: Final[Mapping[tuple[str, ...], Mapping[str, str]]] = {
    _US: {
        "c5": "0.085",
        "c6g": "0.068",
        "c6i": "0.085",
        "c7g": "0.0725",
        "c7i": "0.08925",
        "m5": "0.096",
        "m6g": "0.077",
        "m6i": "0.096",
        "m7g": "0.0816",
        "m7i": "0.1008",
        "r5": "0.126",
        "r6g": "0.1008",
        "r6i": "0.126",
        "r7g": "0.1071",
        "t3": "0.0832",
    },
    _IRELAND: {"c5": "0.096", "m5": "0.107", "m7i": "0.11235", "r5": "0.141"},
}
"""The price of a family's `large`, with two vCPUs; a size costs as many times that as it has the vCPUs."""
_SIZES: Final = {"large": 1, "xlarge": 2} | {f"{count}xlarge": count * 2 for count in (2, 4, 8, 9, 12, 16, 18, 24, 32, 48)}


class PriceTable:
    """The table as a source of prices; its rows say that they are of it (`table`), and of which day it is."""

    async def rates(self, machine: Machine, window: Window) -> Sequence[Rate]:
        """As `PriceSource`."""
        price = on_demand_price(machine.region, machine.instance_type) if machine.capacity_type is CapacityType.ON_DEMAND else None
        return [] if price is None else [Rate(start=window.start, usd_per_hour=price, source=TABLE, as_of=AS_OF)]


def on_demand_price(region: str, instance_type: str) -> Decimal | None:
    """USD an hour; None for what isn't in the table."""
    family, _, size = instance_type.partition(".")
    for regions, types in _GPU_TYPES.items():
        if region in regions and instance_type in types:
            return Decimal(types[instance_type])
    for regions, families in _LARGE.items():
        if region in regions and family in families and size in _SIZES:
            return Decimal(families[family]) * _SIZES[size]
    return None

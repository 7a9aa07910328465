"""What machines cost on demand where nobody can be asked: tables that came with this program, and grow old.

Linux, shared tenancy, USD an hour: GPU machines of all regions that have many of them (`gpu_prices`), and the usual machines beside them
where their prices are known, as of https://aws.amazon.com/ec2/pricing/on-demand/ on `CPU_AS_OF`. us-east-1, us-east-2 and us-west-2 cost
the same. What isn't in a table has no price: a guess would look like one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Final

from shared.costs.gpu_prices import AS_OF as GPU_AS_OF
from shared.costs.gpu_prices import gpu_prices
from shared.costs.model import CapacityType, Rate, Window
from shared.costs.prices import Machine

TABLE: Final = "table"
CPU_AS_OF: Final = date(2026, 7, 28)

_US: Final = ("us-east-1", "us-east-2", "us-west-2")
_IRELAND: Final = ("eu-west-1",)

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
    """The tables as a source of prices; its rows say that they are of it (`table`), and of which day they are."""

    async def rates(self, machine: Machine, window: Window) -> Sequence[Rate]:
        """As `PriceSource`."""
        found = on_demand_price(machine.region, machine.instance_type) if machine.capacity_type is CapacityType.ON_DEMAND else None
        return [] if found is None else [Rate(start=window.start, usd_per_hour=found[0], source=TABLE, as_of=found[1])]


def on_demand_price(region: str, instance_type: str) -> tuple[Decimal, date] | None:
    """USD an hour, and the day of which it is; None for what isn't in the tables."""
    gpus = gpu_prices().get((region, instance_type))
    if gpus is not None:
        return gpus, GPU_AS_OF
    family, _, size = instance_type.partition(".")
    for regions, families in _LARGE.items():
        if region in regions and family in families and size in _SIZES:
            return Decimal(families[family]) * _SIZES[size], CPU_AS_OF
    return None

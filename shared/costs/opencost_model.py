"""What OpenCost says of a window, beside which ours is told."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from shared.jobs.model import Record


class OpenCostAllocation(Record):
    """What OpenCost says of one namespace: USD, and how much of what was asked for was used (0 where it doesn't know)."""

    namespace: str
    total_cost: Decimal
    total_efficiency: Decimal


class OpenCostReading(Record):
    """What OpenCost said of a window, the most expensive first; or why it said nothing."""

    allocations: Sequence[OpenCostAllocation] = ()
    error: str | None = None

    def of(self, namespace: str) -> OpenCostAllocation | None:
        """What it said of a namespace."""
        return next((one for one in self.allocations if one.namespace == namespace), None)


class Difference(Record):
    """What both say of one namespace, and by how much OpenCost says more. None where one of them says nothing."""

    namespace: str
    ours: Decimal | None
    opencost: Decimal | None
    difference: Decimal


def differences(ours: dict[str, Decimal], reading: OpenCostReading) -> list[Difference]:
    """Each namespace that one of both has, the largest difference first."""
    theirs = {one.namespace: one.total_cost for one in reading.allocations}
    nothing = Decimal(0)
    found = [
        Difference(
            namespace=name,
            ours=ours.get(name),
            opencost=theirs.get(name),
            difference=theirs.get(name, nothing) - ours.get(name, nothing),
        )
        for name in ours.keys() | theirs.keys()
    ]
    return sorted(found, key=lambda one: (-abs(one.difference), one.namespace))

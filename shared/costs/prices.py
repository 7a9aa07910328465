"""What machines cost: the port behind which prices come from, and sources put together of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from shared.costs.model import CapacityType, NodeUsage, Rate, Window
from shared.errors import UnavailableError

log = structlog.get_logger()


@dataclass(frozen=True, order=True, kw_only=True, slots=True)
class Machine:
    """What has a price of its own. `zone` is None where it isn't known, and for what costs the same in all zones of a region."""

    region: str
    instance_type: str
    capacity_type: CapacityType
    zone: str | None = None


class PriceSource(Protocol):
    """Knows what machines cost."""

    async def rates(self, machine: Machine, window: Window) -> Sequence[Rate]:
        """The prices in a window, by time. What comes before the first has no known price; none at all: it knows nothing of such a machine.

        Raises UnavailableError where the source doesn't answer: then it isn't known whether it knows.
        """
        ...


def machine_of(node: NodeUsage) -> Machine | None:
    """What a node is to a price source; None for one that doesn't say of which type it is."""
    if node.instance_type is None:
        return None
    zone = node.zone if node.capacity_type is CapacityType.SPOT else None
    return Machine(region=node.region, instance_type=node.instance_type, capacity_type=node.capacity_type, zone=zone)


@dataclass(frozen=True, kw_only=True, slots=True)
class ByCapacity:
    """One source for spot machines and one for those on demand. For capacity blocks, which are paid for ahead, nobody knows a price."""

    spot: PriceSource
    on_demand: PriceSource

    async def rates(self, machine: Machine, window: Window) -> Sequence[Rate]:
        """What the one of the two knows."""
        match machine.capacity_type:
            case CapacityType.SPOT:
                return await self.spot.rates(machine, window)
            case CapacityType.ON_DEMAND:
                return await self.on_demand.rates(machine, window)
            case CapacityType.CAPACITY_BLOCK:
                return ()


@dataclass(frozen=True, slots=True)
class FirstThatKnows:
    """Sources in the order in which they are asked. One that doesn't answer is passed over only where a later one knows."""

    sources: Sequence[PriceSource]

    async def rates(self, machine: Machine, window: Window) -> Sequence[Rate]:
        """What the first that knows such a machine knows of it."""
        failed: UnavailableError | None = None
        for source in self.sources:
            try:
                found = await source.rates(machine, window)
            except UnavailableError as error:
                failed = failed or error
                continue
            if found:
                if failed is not None:
                    log.warning("price of another source", machine=str(machine), source=found[0].source, error=str(failed))
                return found
        if failed is not None:
            raise failed
        return ()


async def rates_of(nodes: Iterable[NodeUsage], source: PriceSource, window: Window) -> dict[Machine, Sequence[Rate]]:
    """The prices of all machines among nodes that were there in a window. Raises UnavailableError."""
    machines = {machine for node in nodes if window.overlap(node.start, node.end) is not None and (machine := machine_of(node)) is not None}
    return {machine: await source.rates(machine, window) for machine in sorted(machines, key=str)}

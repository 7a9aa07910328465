"""A node's price, split between its GPUs, cores and memory.

EC2 sells a machine whole, and says of no part what it costs. OpenCost splits a node's price in the ratio of prices that its parts would
have by themselves, and so does this; its default prices are in
https://github.com/opencost/opencost/blob/develop/configs/default.json (`CPU`, `RAM`, `GPU`).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from shared.costs.model import GIB, NodeUsage

_DIVIDING: Final = Context(prec=120, rounding=ROUND_DOWN)
_QUANTUM: Final = Decimal("1e-30")
"""USD a second, and USD a second of a byte, are rounded once to so many digits; all that follows is exact. Of a node of 2 TiB, a week of
that is less than 1e-11 USD."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """What parts of a node cost by themselves, in USD; only their ratio counts."""

    core_hour: Decimal
    gib_hour: Decimal
    gpu_hour: Decimal
    source: str


OPENCOST: Final = Weights(
    core_hour=Decimal("0.031611"), gib_hour=Decimal("0.004237"), gpu_hour=Decimal("0.95"), source="OpenCost configs/default.json"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """USD a second of a node's cores, memory and GPUs: together what the node costs."""

    cpu: Decimal
    ram: Decimal
    gpu: Decimal


def per_second(usd_per_hour: Decimal) -> Decimal:
    """What a second costs of what has a price an hour; EC2 bills Linux by the second."""
    return _DIVIDING.divide(usd_per_hour, Decimal(3600)).quantize(_QUANTUM, rounding=ROUND_HALF_EVEN, context=_DIVIDING)


def split(usd_per_second: Decimal, node: NodeUsage, weights: Weights) -> Split:
    """The price of a node's parts. One without GPUs has none that cost; of one that tells nothing of itself, cores take all."""
    cpu = weights.core_hour * node.cores
    ram = _DIVIDING.multiply(weights.gib_hour, _DIVIDING.divide(Decimal(node.memory_bytes), GIB))
    gpu = weights.gpu_hour * node.gpus
    together = _DIVIDING.add(_DIVIDING.add(cpu, ram), gpu)
    if not together:
        return Split(cpu=usd_per_second, ram=Decimal(0), gpu=Decimal(0))
    of_ram = share(_DIVIDING.multiply(usd_per_second, ram), together)
    of_gpu = share(_DIVIDING.multiply(usd_per_second, gpu), together)
    return Split(cpu=_DIVIDING.subtract(_DIVIDING.subtract(usd_per_second, of_ram), of_gpu), ram=of_ram, gpu=of_gpu)


def share(price: Decimal, parts: Decimal) -> Decimal:
    """A price for one of so many parts, rounded down, so that all parts together never cost more than the whole."""
    return _DIVIDING.divide(price, parts).quantize(_QUANTUM, context=_DIVIDING) if parts else Decimal(0)

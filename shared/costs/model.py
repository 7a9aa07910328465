"""The records that costs are made of: windows of time, the nodes and pods that were there, and what came of them.

Times are aware and in UTC; money is Decimal, in USD; amounts of use are exact, in units times seconds, so that sums over windows are what
one window over all of them would have given. Hours are made of them for readers, and rounded only then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow, localcontext
from enum import StrEnum
from typing import Final

from shared.errors import InvalidError, Problem

IDLE: Final = "__idle__"
"""The namespace of what nobody asked for, as OpenCost calls it (https://opencost.io/docs/specification/)."""
IDLE_OR_OTHER: Final = "__idle_or_other__"
"""The namespace of the same where only the fleet's pods are watched: what of it others used, nobody knows."""
UNALLOCATED: Final = "__unallocated__"
"""Where costs are grouped by something that a row hasn't (a label, a job), OpenCost's name for those."""
UNKNOWN: Final = "unknown"
"""The price source of what nobody knows a price for."""

_MICROSECOND: Final = timedelta(microseconds=1)
GIB: Final = Decimal(2**30)

WIDE: Final = Context(prec=120)
"""Decimal arithmetic with room for every digit of a cost, for where rounding is the purpose."""
EXACT: Final = Context(prec=120, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow])
"""Decimal arithmetic that rounds nothing: what would need more digits is an error. Costs have some 45 digits behind the point."""

_DIVIDING: Final = Context(prec=60)
_HOUR: Final = Decimal(3600)
_NANO: Final = Decimal("1e-9")


class CapacityType(StrEnum):
    """How a node's machine is paid for."""

    ON_DEMAND = "on_demand"  # and what was reserved: it costs the same, and any discount is on the bill only
    SPOT = "spot"
    CAPACITY_BLOCK = "capacity_block"  # paid for ahead, at a price of its own


def exact_sum(values: Iterable[Decimal]) -> Decimal:
    """A sum of which no digit is lost, as Python's own arithmetic would lose them behind the 28th."""
    found = list(values)  # made by the caller's own arithmetic
    with localcontext(EXACT):
        return sum(found, Decimal(0))


def hours(unit_seconds: Decimal, *, units: Decimal = Decimal(1)) -> Decimal:
    """What is counted in seconds of a unit, or of so many units at once, in hours; to 9 digits."""
    with localcontext(_DIVIDING):
        return (unit_seconds / units / _HOUR).quantize(_NANO)


@dataclass(frozen=True, order=True, slots=True)
class Window:
    """The time from `start` up to, but not including, `end`; both aware, kept in UTC.

    Raises InvalidError for times without a zone, and for an end that isn't after the start.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name, moment in (("start", self.start), ("end", self.end)):
            if moment.tzinfo is None:
                raise InvalidError([Problem(pointer=f"/{name}", value=moment.isoformat(), rule="must be a time with a zone")])
        if self.end <= self.start:
            raise InvalidError([Problem(pointer="/end", value=self.end.isoformat(), rule="must be after the start")])
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))

    @property
    def seconds(self) -> Decimal:
        """How long it is."""
        return seconds(self.end - self.start)

    def holds(self, moment: datetime) -> bool:
        """Whether a moment is in it."""
        return self.start <= moment < self.end

    def overlap(self, start: datetime, end: datetime | None) -> tuple[datetime, datetime] | None:
        """The part of a span that lies in the window; None where none does. A span without an end goes on beyond the window."""
        first, last = max(start, self.start), self.end if end is None else min(end, self.end)
        return (first, last) if first < last else None


def seconds(duration: timedelta) -> Decimal:
    """A duration in seconds, exact."""
    return Decimal(duration // _MICROSECOND).scaleb(-6)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeUsage:
    """A node and what it has. `end` is None while it is there; one before `start` comes of clocks that differ.

    `cores`, `memory_bytes` and `gpus` are its capacity, which is what the price buys, not what pods may have of it.
    """

    uid: str
    name: str
    region: str
    cluster: str
    start: datetime
    end: datetime | None = None
    zone: str | None = None
    instance_type: str | None = None
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    cores: Decimal = Decimal(0)
    memory_bytes: int = 0
    gpus: int = 0

    @property
    def span(self) -> tuple[datetime, datetime | None]:
        """From when to when. One whose end isn't after its start was there for no time."""
        return self.start, self.end


@dataclass(frozen=True, kw_only=True, slots=True)
class PodUsage:
    """A pod and what it asked for, from the time when it had its place on a node. `end` as of a node.

    `node` is the node's name, which is all that a pod says; which node of that name it was, its time tells. `job_id`, `job_name`,
    `execution` and `submitted_by` are None of pods that aren't the fleet's. `labels` are its user's and its
    Job's, at most 32 of them.
    """

    uid: str
    node: str
    region: str
    cluster: str
    namespace: str
    start: datetime
    end: datetime | None = None
    job_id: str | None = None
    job_name: str | None = None
    execution: int | None = None
    submitted_by: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    cores: Decimal = Decimal(0)
    memory_bytes: int = 0
    gpus: int = 0

    @property
    def span(self) -> tuple[datetime, datetime | None]:
        """From when to when. One whose end isn't after its start was there for no time."""
        return self.start, self.end


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """What an hour of a machine costs from a time on, until the next rate. `as_of` is the day on which the source said so."""

    start: datetime
    usd_per_hour: Decimal
    source: str
    as_of: date


class RowKind(StrEnum):
    """Whose a row is."""

    JOB = "job"  # an execution of a job of the fleet
    OTHER = "other"  # pods of a namespace that are not the fleet's; only where all pods are watched
    IDLE = "idle"  # the rest of the nodes


@dataclass(frozen=True, kw_only=True, slots=True)
class CostRow:
    """What one execution, one namespace of others, or nobody used of one kind of nodes in a window, and what that cost.

    Costs are exact: the rows of a window add up to what its nodes cost, and those of windows that follow one another to the rows of the
    whole. `rounding.rounded` makes them short. Where `price_source` is `unknown` the costs are nothing, and known to be too little.
    `job_name` is None where the pods didn't tell it.
    """

    window: Window
    kind: RowKind
    region: str
    cluster: str
    namespace: str
    instance_type: str | None
    capacity_type: CapacityType | None
    price_source: str
    price_as_of: date | None
    job_id: str | None = None
    job_name: str | None = None
    execution: int | None = None
    submitted_by: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu_core_seconds: Decimal = Decimal(0)
    ram_byte_seconds: Decimal = Decimal(0)
    gpu_seconds: Decimal = Decimal(0)
    cpu_cost: Decimal = Decimal(0)
    ram_cost: Decimal = Decimal(0)
    gpu_cost: Decimal = Decimal(0)

    @property
    def priced(self) -> bool:
        """Whether a price was known."""
        return self.price_source != UNKNOWN

    @property
    def total_cost(self) -> Decimal:
        """All of it, in USD."""
        return exact_sum((self.cpu_cost, self.ram_cost, self.gpu_cost))

    @property
    def cpu_core_hours(self) -> Decimal:
        """Hours of a core, to 9 digits."""
        return hours(self.cpu_core_seconds)

    @property
    def ram_gib_hours(self) -> Decimal:
        """Hours of a GiB, to 9 digits."""
        return hours(self.ram_byte_seconds, units=GIB)

    @property
    def gpu_hours(self) -> Decimal:
        """Hours of a GPU, to 9 digits."""
        return hours(self.gpu_seconds)

    def with_costs(self, *, cpu: Decimal, ram: Decimal, gpu: Decimal) -> CostRow:
        """The same with other costs."""
        return replace(self, cpu_cost=cpu, ram_cost=ram, gpu_cost=gpu)

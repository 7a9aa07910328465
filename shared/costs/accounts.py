"""The account of a window: its rows by execution and what they rest on. All files of a report are made of it, and of nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Final

from pydantic import AwareDatetime

from shared.costs.allocation import allocate
from shared.costs.ledger import LATE
from shared.costs.model import EXACT, GIB, CostRow, Window, exact_sum, hours
from shared.costs.opencost_model import OpenCostReading
from shared.costs.reports import AllocationRow
from shared.costs.rounding import QUANTUM, rounded
from shared.costs.shares import OPENCOST
from shared.costs.timeline import Rates, cost_of_nodes
from shared.costs.usage import Usage
from shared.errors import FleetError
from shared.jobs.model import Record

_NOTHING: Final = Decimal(0)


class SumError(FleetError):
    """The rows of a window don't add up to what its nodes cost. Nothing is written then."""

    def __init__(self, window: Window, rows: Decimal, nodes: Decimal) -> None:
        self.window = window
        self.rows = rows
        self.nodes = nodes
        super().__init__(f"window {window.start.isoformat()}: the rows add up to {rows} USD, and the nodes cost {nodes} USD")


class Gap(Record):
    """A time without an observer: what came and went in it isn't known."""

    start: AwareDatetime
    end: AwareDatetime


class Basis(Record):
    """What an account rests on. Money in USD, to 9 digits.

    `final`: an observer has told of the time after the window, and it is so long over that no late news are taken in any more: another
    account would say the same. `all_pods`: the rest of the
    nodes was idle; otherwise others may have used it. `shares` says by whose ratio a node's price is split.
    """

    region: str
    window_start: AwareDatetime
    window_end: AwareDatetime
    made_at: AwareDatetime
    node_cost: Decimal
    complete_to: AwareDatetime
    gaps: list[Gap]
    final: bool
    all_pods: bool
    shares: str = OPENCOST.source
    opencost: OpenCostReading | None = None

    @property
    def window(self) -> Window:
        """The window."""
        return Window(self.window_start, self.window_end)

    def better_than(self, other: Basis) -> bool:
        """Whether it rests on more than another does. What is final stays as it is."""
        return not other.final and self._rank > other._rank

    @property
    def _rank(self) -> tuple[bool, Decimal, AwareDatetime]:
        return self.final, -sum((Window(gap.start, gap.end).seconds for gap in self.gaps), _NOTHING), self.complete_to


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """The rows of a window, the most expensive first: together exactly what the nodes cost, to 9 digits. Raises SumError."""

    basis: Basis
    rows: Sequence[CostRow]

    def __post_init__(self) -> None:
        together = exact_sum(row.total_cost for row in self.rows)
        if together != self.basis.node_cost:
            raise SumError(self.basis.window, together, self.basis.node_cost)


def account_of(usage: Usage, rates: Rates, *, region: str, made_at: AwareDatetime, opencost: OpenCostReading | None = None) -> Account:
    """The account of what was there, at these prices. Raises SumError."""
    rows = rounded(allocate(usage.nodes, usage.pods, rates, usage.window, all_pods=usage.all_pods))
    exact = cost_of_nodes(usage.nodes, rates, usage.window)
    with localcontext(EXACT) as context:
        context.traps = dict.fromkeys(context.traps, False)  # to round is the purpose
        node_cost = exact.quantize(QUANTUM)
    basis = Basis(
        region=region,
        window_start=usage.window.start,
        window_end=usage.window.end,
        made_at=made_at,
        node_cost=node_cost,
        complete_to=usage.complete_to,
        gaps=[Gap(start=gap.start, end=gap.end) for gap in usage.gaps],
        final=usage.final and made_at >= usage.window.end + LATE,
        all_pods=usage.all_pods,
        opencost=opencost,
    )
    return Account(basis=basis, rows=rows)


def allocation_rows(account: Account) -> list[AllocationRow]:
    """The rows by namespace, as GCO has them, the most expensive first.

    What a node's price is split into are cores, memory and GPUs; volumes, networks, load balancers and what is shared or outside aren't
    measured here, and cost nothing. How much of what was asked for was used, only OpenCost knows: without it, efficiency is 0.
    """
    grouped: defaultdict[tuple[str, str], list[CostRow]] = defaultdict(list)
    for row in account.rows:
        grouped[row.cluster, row.namespace].append(row)
    found = [_allocation(cluster, namespace, rows, account) for (cluster, namespace), rows in grouped.items()]
    return sorted(found, key=lambda row: (-row.total_cost, row.namespace, row.cluster))


def _allocation(cluster: str, namespace: str, rows: Iterable[CostRow], account: Account) -> AllocationRow:
    rows = list(rows)
    told = account.basis.opencost.of(namespace) if account.basis.opencost else None
    return AllocationRow(
        window_start=account.basis.window_start,
        window_end=account.basis.window_end,
        cluster=cluster,
        namespace=namespace,
        cpu_core_hours=hours(exact_sum(row.cpu_core_seconds for row in rows)),
        cpu_cost=exact_sum(row.cpu_cost for row in rows),
        ram_gib_hours=hours(exact_sum(row.ram_byte_seconds for row in rows), units=GIB),
        ram_cost=exact_sum(row.ram_cost for row in rows),
        gpu_hours=hours(exact_sum(row.gpu_seconds for row in rows)),
        gpu_cost=exact_sum(row.gpu_cost for row in rows),
        pv_cost=_NOTHING,
        network_cost=_NOTHING,
        load_balancer_cost=_NOTHING,
        shared_cost=_NOTHING,
        external_cost=_NOTHING,
        total_cost=exact_sum(row.total_cost for row in rows),
        total_efficiency=told.total_efficiency if told else _NOTHING,
    )

"""Who pays for a node: a pure function of nodes, pods and prices.

At every moment a node's price is split between its parts (`shares`), and each part's between the pods in the ratio of what they ask of it.
Pods that together ask for less than there is leave the rest idle; those that ask for more share what there is. As a price at a moment
depends on nothing but that moment, costs of windows add up to those of the window that they make together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, localcontext
from itertools import accumulate, pairwise
from typing import Any, Final

from shared.costs.merging import merge_nodes, merge_pods
from shared.costs.model import (
    EXACT,
    IDLE,
    IDLE_OR_OTHER,
    UNKNOWN,
    CapacityType,
    CostRow,
    NodeUsage,
    PodUsage,
    RowKind,
    Window,
    seconds,
)
from shared.costs.placing import pods_by_node
from shared.costs.shares import OPENCOST, Weights, share, split
from shared.costs.timeline import Priced, Rates, priced_time, source_at

_ZERO: Final = Decimal(0)
_PARTS: Final = ("cpu", "ram", "gpu")


def allocate(
    nodes: Iterable[NodeUsage],
    pods: Iterable[PodUsage],
    rates: Rates,
    window: Window,
    *,
    weights: Weights = OPENCOST,
    all_pods: bool = False,
) -> list[CostRow]:
    """The rows of a window, the most expensive first: together exactly what its nodes cost (`timeline.cost_of_nodes`).

    `rates` has the prices of each machine by time (`prices.rates_of`). `all_pods`: `pods` are all that there were, so that what is left
    of a node was idle. A pod that was there for no time at all has a row of nothing; one whose node nobody knows, one without a price.
    """
    placed = pods_by_node(nodes := merge_nodes(nodes), merge_pods(pods))
    rest = IDLE if all_pods else IDLE_OR_OTHER
    with localcontext(EXACT):
        sums: dict[_Key, _Sum] = defaultdict(_Sum)
        for node in nodes:
            for priced in priced_time(node, rates, window):
                _add_node(sums, priced, placed.get(node.uid, ()), weights, rest)
            for pod in placed.get(node.uid, ()):
                if window.holds(pod.start) and not _met(pod, node):
                    sums[_key_of(pod, node, source_at(node, rates, pod.start))].use(_asked(pod), _ZERO)
        for pod in placed.get(None, ()):
            span = window.overlap(*pod.span) or ((pod.start, pod.start) if window.holds(pod.start) else None)
            if span is not None:
                sums[_key_of(pod, None, UNKNOWN)].use(_asked(pod), seconds(span[1] - span[0]))
        rows = [key.row(window, found) for key, found in sums.items()]
    return sorted(rows, key=lambda row: (-row.total_cost, row.namespace, row.job_id or "", row.execution or 0, row.instance_type or ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Key:
    """What tells rows apart. Labels are sorted pairs."""

    kind: RowKind
    region: str
    cluster: str
    namespace: str
    instance_type: str | None
    capacity_type: CapacityType | None
    source: str
    job_id: str | None = None
    job_name: str | None = None
    execution: int | None = None
    submitted_by: str | None = None
    labels: tuple[tuple[str, str], ...] = ()

    def row(self, window: Window, found: _Sum) -> CostRow:
        """The row."""
        return CostRow(
            window=window,
            kind=self.kind,
            region=self.region,
            cluster=self.cluster,
            namespace=self.namespace,
            instance_type=self.instance_type,
            capacity_type=self.capacity_type,
            price_source=self.source,
            price_as_of=found.as_of,
            job_id=self.job_id,
            job_name=self.job_name,
            execution=self.execution,
            submitted_by=self.submitted_by,
            labels=dict(self.labels),
            cpu_core_seconds=found.used["cpu"],
            ram_byte_seconds=found.used["ram"],
            gpu_seconds=found.used["gpu"],
            cpu_cost=found.costs["cpu"],
            ram_cost=found.costs["ram"],
            gpu_cost=found.costs["gpu"],
        )


def _nothing() -> dict[str, Decimal]:
    return dict.fromkeys(_PARTS, _ZERO)


@dataclass(slots=True)
class _Sum:
    """Amounts and costs by part of a node; `as_of` is the oldest of the prices."""

    used: dict[str, Decimal] = field(default_factory=_nothing)
    costs: dict[str, Decimal] = field(default_factory=_nothing)
    as_of: date | None = None

    def use(self, asked: Mapping[str, Decimal], duration: Decimal) -> None:
        """So much of each part for so many seconds."""
        for part, amount in asked.items():
            self.used[part] += amount * duration

    def told(self, as_of: date | None) -> None:
        """A price of that day was used."""
        if as_of is not None and (self.as_of is None or as_of < self.as_of):
            self.as_of = as_of


def _add_node(sums: dict[_Key, _Sum], priced: Priced, pods: Sequence[PodUsage], weights: Weights, rest: str) -> None:
    """The shares of a node's pods, and what is left of it.

    What a pod pays is what it asks for, times the price of a unit over its time. The latter is a difference of two sums over time, so that
    the time this takes grows with the number of pods and not with how many there were at once.
    """
    node, within = priced.node, priced.time
    present = [(pod, _asked(pod), span) for pod in pods if (span := within.overlap(*pod.span)) is not None]
    moments = sorted({within.start, within.end, *(at for *_, span in present for at in span), *(first for first, _, _ in priced.prices)})
    durations = [seconds(after - before) for before, after in pairwise(moments)]
    prices = priced.at_each(moments)
    by_price = {price: split(price, node, weights) for price in set(prices)}
    splits = [by_price[price] for price in prices]
    has = _asked(node)
    idle = sums[_idle_key(priced, rest)]
    idle.told(priced.as_of)
    where = [(pod, asked, bisect_left(moments, first), bisect_left(moments, last)) for pod, asked, (first, last) in present]
    found = [sums[_key_of(pod, node, priced.source)] for pod, *_ in where]
    for part in _PARTS:
        asked_together = _together(where, part, len(durations))
        units = [share(getattr(one, part), max(has[part], asked)) for one, asked in zip(splits, asked_together, strict=True)]
        paid = list(accumulate((unit * duration for unit, duration in zip(units, durations, strict=True)), initial=_ZERO))
        left = sum((getattr(one, part) * duration for one, duration in zip(splits, durations, strict=True)), _ZERO)
        for (_, asked, begin, end_at), one in zip(where, found, strict=True):
            cost = asked[part] * (paid[end_at] - paid[begin])
            one.costs[part] += cost
            left -= cost
        idle.costs[part] += left
        unused = (max(_ZERO, has[part] - asked) * duration for asked, duration in zip(asked_together, durations, strict=True))
        idle.used[part] += sum(unused, _ZERO)
    for (_, asked, begin, end_at), one in zip(where, found, strict=True):
        one.use(asked, seconds(moments[end_at] - moments[begin]))
        one.told(priced.as_of)


def _together(where: Sequence[tuple[PodUsage, Mapping[str, Decimal], int, int]], part: str, count: int) -> list[Decimal]:
    """What all pods ask of a part from each moment to the next."""
    changes = [_ZERO] * (count + 1)
    for _, asked, first, last in where:
        changes[first] += asked[part]
        changes[last] -= asked[part]
    return list(accumulate(changes[:count]))


def _asked(one: NodeUsage | PodUsage) -> dict[str, Decimal]:
    """Cores, bytes and GPUs; what is below nothing counts as nothing."""
    return {"cpu": max(one.cores, _ZERO), "ram": Decimal(max(one.memory_bytes, 0)), "gpu": Decimal(max(one.gpus, 0))}


def _met(pod: PodUsage, node: NodeUsage) -> bool:
    """Whether both were there at some time."""
    (start, end), (node_start, node_end) = pod.span, node.span
    ends = [at for at in (end, node_end) if at is not None]
    return not ends or max(start, node_start) < min(ends)


def _idle_key(priced: Priced, rest: str) -> _Key:
    node = priced.node
    return _Key(
        kind=RowKind.IDLE,
        region=node.region,
        cluster=node.cluster,
        namespace=rest,
        instance_type=node.instance_type,
        capacity_type=node.capacity_type,
        source=priced.source,
    )


def _key_of(pod: PodUsage, node: NodeUsage | None, source: str) -> _Key:
    """Rows of the fleet are one for each execution, those of others one for each namespace."""
    where: dict[str, Any] = {
        "region": pod.region,
        "cluster": pod.cluster,
        "namespace": pod.namespace,
        "instance_type": node.instance_type if node else None,
        "capacity_type": node.capacity_type if node else None,
        "source": source,
    }
    if pod.job_id is None:
        return _Key(kind=RowKind.OTHER, **where)
    return _Key(
        kind=RowKind.JOB,
        job_id=pod.job_id,
        job_name=pod.job_name,
        execution=pod.execution,
        submitted_by=pod.submitted_by,
        labels=tuple(sorted(pod.labels.items())),
        **where,
    )

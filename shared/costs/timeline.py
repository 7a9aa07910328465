"""A node's time and what it costs at each moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Final

from shared.costs.merging import merge_nodes
from shared.costs.model import EXACT, UNKNOWN, NodeUsage, Rate, Window, exact_sum, seconds
from shared.costs.prices import Machine, machine_of
from shared.costs.shares import per_second

Rates = Mapping[Machine, Sequence[Rate]]

_ZERO: Final = Decimal(0)


def cost_of_nodes(nodes: Iterable[NodeUsage], rates: Rates, window: Window) -> Decimal:
    """What nodes cost in a window, exact: what the rows of `allocate` add up to. Where no price is known they cost nothing."""
    with localcontext(EXACT):
        found = [priced for node in merge_nodes(nodes) for priced in priced_time(node, rates, window)]
        return exact_sum(price * seconds(end - start) for one in found for start, end, price in one.prices)


@dataclass(frozen=True, kw_only=True, slots=True)
class Priced:
    """A part of a node's time of which one source tells the prices: spans that follow one another, with USD a second in each."""

    node: NodeUsage
    source: str
    as_of: date | None
    prices: Sequence[tuple[datetime, datetime, Decimal]]

    @property
    def time(self) -> Window:
        """From the first to the last."""
        return Window(self.prices[0][0], self.prices[-1][1])

    def at_each(self, moments: Sequence[datetime]) -> list[Decimal]:
        """The price from each moment to the next; the moments are of this time, and its prices change only at them."""
        prices = iter(self.prices)
        current = next(prices)
        found: list[Decimal] = []
        for moment in moments[:-1]:
            while moment >= current[1]:
                current = next(prices)
            found.append(current[2])
        return found


def priced_time(node: NodeUsage, rates: Rates, window: Window) -> Iterator[Priced]:
    """A node's time in a window, cut where its price comes from another source."""
    found = window.overlap(*node.span)
    if found is None:
        return
    start, end = found
    timeline = _timeline(node, rates)
    spans: list[tuple[datetime, datetime, Rate | None]] = []
    for rate, following in pairwise([None, *timeline, None]):
        first = max(start, rate.start) if rate else start
        last = min(end, following.start) if following else end
        if first < last:
            spans.append((first, last, rate))
    while spans:
        source = _source(spans[0][2])
        count = next((at for at, one in enumerate(spans) if _source(one[2]) != source), len(spans))
        told, spans = spans[:count], spans[count:]
        yield Priced(
            node=node,
            source=source,
            as_of=min((rate.as_of for _, _, rate in told if rate), default=None),
            prices=[(first, last, per_second(rate.usd_per_hour) if rate else _ZERO) for first, last, rate in told],
        )


def _timeline(node: NodeUsage, rates: Rates) -> list[Rate]:
    machine = machine_of(node)
    return sorted(rates.get(machine, ()) if machine else (), key=lambda rate: rate.start)


def _source(rate: Rate | None) -> str:
    return rate.source if rate else UNKNOWN


def source_at(node: NodeUsage, rates: Rates, moment: datetime) -> str:
    """Who tells the price of a node at a moment."""
    return _source(next((rate for rate in reversed(_timeline(node, rates)) if rate.start <= moment), None))

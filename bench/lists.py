"""What one page of each kind of list costs, in requests and read units, with 1,000 jobs and with 100,000.

The jobs are put straight into the table, dealt over all states so that with 1,000 of them, too, every state has more than one page: a list
that is shorter than its page is cheaper for another reason. Requests and read units are taken from what the client is sent (see
`read_units`). The figures are the dearest growth of any list, its first page
with many jobs and one from its middle, over the first page with few. 1 means that nothing grows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from bench.figures import Figure, Options
from bench.filling import fill, heads
from bench.read_units import MeasuredReads
from bench.stage import NAMESPACE, REGION, Fleet, fleet, stage
from shared.jobs.model import Head
from shared.jobs.states import State
from shared.store import keys
from shared.store.listing import Filters, Listing
from shared.store.table import Table

FEW = 1_000
MANY = 100_000
QUICK = 20_000
LIMIT = 100
HALF = timedelta(minutes=30)

_LISTS = {
    "all jobs": Filters(),
    "of a region": Filters(region=REGION),
    "of a state": Filters(states=frozenset({State.SUCCEEDED})),
    "of a region and two states": Filters(region=REGION, states=frozenset({State.SUCCEEDED, State.FAILED})),
    "of a namespace": Filters(namespaces=frozenset({NAMESPACE})),
    "of a namespace and a state": Filters(namespaces=frozenset({NAMESPACE}), states=frozenset({State.SUCCEEDED})),
    "of a region and a namespace": Filters(region=REGION, namespaces=frozenset({NAMESPACE})),
}
_DEALT = {state: 0.3 if state is State.SUCCEEDED else 0.7 / (len(State) - 1) for state in State}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Of one page."""

    requests: int
    units: float
    jobs: int


async def run(options: Options) -> list[Figure]:
    """The figures of lists."""
    many = QUICK if options.quick else MANY
    async with stage() as place:
        async with fleet(place) as small:
            await fill(small, _jobs(FEW), concurrency=8)
            few = await _costs(small, deep=False)
        async with fleet(place) as large:
            began = time.perf_counter()
            await fill(large, _jobs(many), concurrency=8)
            filled = time.perf_counter() - began
            first, middle = await _costs(large, deep=False), await _costs(large, deep=True)

    def growth(what: str) -> float:
        return max(getattr(costs[name], what) / getattr(few[name], what) for costs in (first, middle) for name in few)

    details = {name: {what: [getattr(costs[name], what) for costs in (few, first, middle)] for what in Cost.__slots__} for name in few}
    note = f"the dearest of {len(few)} kinds of list, first and middle page of {LIMIT}: {many:,} jobs against {FEW:,}"
    return [
        Figure(
            name="a page's requests, growth",
            value=growth("requests"),
            bound=1.0,
            unit="x",
            note=note,
            details={"jobs": many, "fill_seconds": round(filled, 1), "few, many, middle of many": details},
        ),
        Figure(name="a page's read units, growth", value=growth("units"), bound=1.0, unit="x", note=note),
    ]


def _jobs(count: int) -> Iterator[Head]:
    """Of each state some, all over the same hour."""
    for state, share in _DEALT.items():
        number = round(count * share)
        yield from heads(number, state=state, spread=2 * HALF / number)


async def _costs(found: Fleet, *, deep: bool) -> dict[str, Cost]:
    """Of one page of each list; `deep` begins where half of all jobs are newer."""
    position = keys.listed_order(next(heads(1, ago=HALF)))
    costs = {}
    for name, filters in _LISTS.items():
        cursor = Listing.cursor_after(filters, position) if deep else None
        reads = MeasuredReads(found.aws.dynamodb)
        page = await Listing(Table(reads, found.settings.table), [REGION]).page(filters, limit=LIMIT, cursor=cursor)
        costs[name] = Cost(requests=reads.requests, units=reads.units, jobs=len(page.heads))
    return costs

"""The summary of a report, as JSON: what a reader wants to know before he opens a Parquet file. Decimals are texts in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from pydantic import AwareDatetime

from shared.costs.accounts import Account, Gap
from shared.costs.model import CostRow, RowKind, exact_sum, hours
from shared.costs.opencost_model import Difference, differences
from shared.costs.report_keys import ReportKeys
from shared.costs.reports import AllocationRow
from shared.jobs.model import Record


class PriceUsed(Record):
    """A source of prices, the oldest day that its prices are of, and what was paid at them."""

    source: str
    as_of: date | None
    cost: Decimal


class OpenCostCompared(Record):
    """What OpenCost says beside what is reported; with `error`, it said nothing."""

    total_cost: Decimal | None
    difference: Decimal | None
    namespaces: Sequence[Difference]
    error: str | None


class Summary(Record):
    """A report in figures. Money in USD.

    `jobs_cost`, `other_cost` (pods that aren't the fleet's) and `idle_cost` together are `total_cost`, which is `node_cost`. `complete`:
    an observer was there all the time. `final`: it will not be made again. `unpriced_*_hours` are those whose price nobody knew, so that
    their cost is missing. `jobs_tag` is the ETag of the file of the jobs that this was made of.
    """

    region: str
    window_start: AwareDatetime
    window_end: AwareDatetime
    made_at: AwareDatetime
    allocation_key: str
    jobs_key: str
    jobs_tag: str
    row_count: int
    job_row_count: int
    node_cost: Decimal
    total_cost: Decimal
    jobs_cost: Decimal
    other_cost: Decimal
    idle_cost: Decimal
    complete: bool
    complete_to: AwareDatetime
    gaps: Sequence[Gap]
    final: bool
    all_pods: bool
    shares: str
    prices: Sequence[PriceUsed]
    unpriced_core_hours: Decimal
    unpriced_gpu_hours: Decimal
    opencost: OpenCostCompared | None


def summary_of(account: Account, rows: Sequence[AllocationRow], keys: ReportKeys, *, jobs_tag: str) -> Summary:
    """The summary of an account and its rows by namespace."""
    basis = account.basis
    unpriced = [row for row in account.rows if not row.priced]
    return Summary(
        region=basis.region,
        window_start=basis.window_start,
        window_end=basis.window_end,
        made_at=basis.made_at,
        allocation_key=keys.allocation,
        jobs_key=keys.jobs,
        jobs_tag=jobs_tag,
        row_count=len(rows),
        job_row_count=len(account.rows),
        node_cost=basis.node_cost,
        total_cost=exact_sum(row.total_cost for row in rows),
        jobs_cost=_cost(account, RowKind.JOB),
        other_cost=_cost(account, RowKind.OTHER),
        idle_cost=_cost(account, RowKind.IDLE),
        complete=not basis.gaps,
        complete_to=basis.complete_to,
        gaps=basis.gaps,
        final=basis.final,
        all_pods=basis.all_pods,
        shares=basis.shares,
        prices=_prices(account.rows),
        unpriced_core_hours=hours(exact_sum(row.cpu_core_seconds for row in unpriced)),
        unpriced_gpu_hours=hours(exact_sum(row.gpu_seconds for row in unpriced)),
        opencost=_compared(account, rows),
    )


def _cost(account: Account, kind: RowKind) -> Decimal:
    return exact_sum(row.total_cost for row in account.rows if row.kind is kind)


def _prices(rows: Sequence[CostRow]) -> list[PriceUsed]:
    grouped: defaultdict[str, list[CostRow]] = defaultdict(list)
    for row in rows:
        grouped[row.price_source].append(row)
    return [
        PriceUsed(
            source=source,
            as_of=min((row.price_as_of for row in those if row.price_as_of), default=None),
            cost=exact_sum(row.total_cost for row in those),
        )
        for source, those in sorted(grouped.items())
    ]


def _compared(account: Account, rows: Sequence[AllocationRow]) -> OpenCostCompared | None:
    reading = account.basis.opencost
    if reading is None:
        return None
    if reading.error is not None:
        return OpenCostCompared(total_cost=None, difference=None, namespaces=[], error=reading.error)
    ours: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        ours[row.namespace] += row.total_cost
    theirs = exact_sum(one.total_cost for one in reading.allocations)
    return OpenCostCompared(
        total_cost=theirs,
        difference=theirs - account.basis.node_cost,
        namespaces=differences(dict(ours), reading),
        error=None,
    )

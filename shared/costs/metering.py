"""What one execution has cost, reckoned as the reports do, from its own pods and their nodes alone.

That is the same as its rows in the reports, to the last digit, for others on a node don't matter as long as they all ask for no more than
there is, which is what a scheduler sees to. Where something got past it, the reports, which know the others, share out what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, localcontext
from typing import Final

from shared.costs.allocation import allocate
from shared.costs.model import WIDE, CostRow, NodeUsage, PodUsage, RowKind, Window, exact_sum
from shared.costs.rounding import QUANTUM
from shared.costs.timeline import Rates
from shared.jobs.model import Spent

NOT_ENDED: Final = "a pod had not ended yet"


def cost_of(pods: Sequence[PodUsage], nodes: Iterable[NodeUsage], rates: Rates, at: datetime, *, ended: bool) -> Spent:
    """What pods have cost up to a time, or in all where they have `ended`. They are of one execution, the nodes those that they name.

    Clusters tell times in whole seconds, cut off; so is `at`, or else an execution would cost less at its end than it did before.
    """
    at = at.replace(microsecond=0)
    there = [pod if pod.end is not None else replace(pod, end=max(at, pod.start)) for pod in pods]
    start = min((pod.start for pod in there), default=at)
    end = max((pod.end for pod in there if pod.end is not None), default=at)
    if not ended:
        end = min(end, at)
    if end <= start:
        return Spent(missing=_unended(pods) if ended else None)
    rows = [row for row in allocate(nodes, there, rates, Window(start, end)) if row.kind is RowKind.JOB]
    with localcontext(WIDE):
        usd = exact_sum(row.total_cost for row in rows).quantize(QUANTUM) or Decimal(0)
    missing = next((_unpriced(row) for row in rows if not row.priced and _used(row)), None)
    return Spent(known_usd=usd, missing=missing or (_unended(pods) if ended else None))


def _used(row: CostRow) -> bool:
    return bool(row.cpu_core_seconds or row.ram_byte_seconds or row.gpu_seconds)


def _unended(pods: Iterable[PodUsage]) -> str | None:
    return NOT_ENDED if any(pod.end is None for pod in pods) else None


def _unpriced(row: CostRow) -> str:
    if row.instance_type is None or row.capacity_type is None:
        return "the machine of a pod is not known"
    return f"no price of {row.instance_type} ({row.capacity_type.replace('_', ' ')}) in {row.region} is known"

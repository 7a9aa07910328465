"""Rows summed up by what a reader wants to know: which job, whose label, how much of it spot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from shared.costs.model import GIB, UNALLOCATED, CostRow, RowKind, exact_sum, hours
from shared.errors import InvalidError, Problem


class By(StrEnum):
    """What rows can be summed up by."""

    JOB = "job"
    EXECUTION = "execution"  # `<job id>/<number>`
    NAMESPACE = "namespace"
    LABEL = "label"  # the values of one key
    SUBMITTER = "submitter"
    CLUSTER = "cluster"
    REGION = "region"
    CAPACITY_TYPE = "capacity_type"
    INSTANCE_TYPE = "instance_type"


@dataclass(frozen=True, kw_only=True, slots=True)
class Total:
    """What all rows of one value used and cost. `key` is the value, `__unallocated__` where rows have none.
    `name` is that of the job, where rows are summed up by job or execution and say it.

    What was idle (`idle`) is never added to what was used: it is a total of its own, named as its rows, and for nodes' own properties one
    for each value. `unpriced_core_hours` and `unpriced_gpu_hours` are those of the hours whose price nobody knows; their cost is missing.
    """

    key: str
    name: str | None
    idle: bool
    cpu_core_hours: Decimal
    ram_gib_hours: Decimal
    gpu_hours: Decimal
    cpu_cost: Decimal
    ram_cost: Decimal
    gpu_cost: Decimal
    total_cost: Decimal
    unpriced_core_hours: Decimal
    unpriced_gpu_hours: Decimal


_OF_NODES: Final = frozenset({By.CLUSTER, By.REGION, By.CAPACITY_TYPE, By.INSTANCE_TYPE})
_OF_JOBS: Final = frozenset({By.JOB, By.EXECUTION})

_KEYS: Final[Mapping[By, Callable[[CostRow], str | None]]] = {
    By.JOB: lambda row: row.job_id,
    By.EXECUTION: lambda row: f"{row.job_id}/{row.execution}" if row.job_id else None,
    By.NAMESPACE: lambda row: row.namespace,
    By.SUBMITTER: lambda row: row.submitted_by,
    By.CLUSTER: lambda row: row.cluster,
    By.REGION: lambda row: row.region,
    By.CAPACITY_TYPE: lambda row: row.capacity_type,
    By.INSTANCE_TYPE: lambda row: row.instance_type,
}


def totals(rows: Iterable[CostRow], by: By, *, label: str | None = None) -> list[Total]:
    """The rows summed up, the most expensive first; together they cost what the rows do. `label` is the key, for `By.LABEL`.

    Raises InvalidError for a label without `By.LABEL`, and for the latter without a label.
    """
    if (by is By.LABEL) != bool(label):
        raise InvalidError([Problem(pointer="/label", value=label, rule="must be the key of a label, where costs are summed up by label")])
    grouped: dict[tuple[str, bool], list[CostRow]] = defaultdict(list)
    for row in rows:
        grouped[_key(row, by, label or ""), row.kind is RowKind.IDLE].append(row)
    found = [_total(key, idle, those, named=by in _OF_JOBS) for (key, idle), those in grouped.items()]
    return sorted(found, key=lambda total: (-total.total_cost, total.key, total.idle))


def _key(row: CostRow, by: By, label: str) -> str:
    if row.kind is RowKind.IDLE and by not in _OF_NODES:
        return row.namespace
    found = row.labels.get(label) if by is By.LABEL else _KEYS[by](row)
    return found or UNALLOCATED


def _total(key: str, idle: bool, rows: list[CostRow], *, named: bool) -> Total:
    unpriced = [row for row in rows if not row.priced]
    return Total(
        key=key,
        name=next((row.job_name for row in rows if row.job_name), None) if named and key != UNALLOCATED else None,
        idle=idle,
        cpu_core_hours=hours(exact_sum(row.cpu_core_seconds for row in rows)),
        ram_gib_hours=hours(exact_sum(row.ram_byte_seconds for row in rows), units=GIB),
        gpu_hours=hours(exact_sum(row.gpu_seconds for row in rows)),
        cpu_cost=exact_sum(row.cpu_cost for row in rows),
        ram_cost=exact_sum(row.ram_cost for row in rows),
        gpu_cost=exact_sum(row.gpu_cost for row in rows),
        total_cost=exact_sum(row.total_cost for row in rows),
        unpriced_core_hours=hours(exact_sum(row.cpu_core_seconds for row in unpriced)),
        unpriced_gpu_hours=hours(exact_sum(row.gpu_seconds for row in unpriced)),
    )

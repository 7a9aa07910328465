"""Costs short enough to be written down, which still add up."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Decimal, localcontext
from typing import Final

from shared.costs.model import WIDE, CostRow, exact_sum

QUANTUM: Final = Decimal("1e-9")
"""USD. A core's price a second is some 1e-5."""


def rounded(rows: Sequence[CostRow]) -> list[CostRow]:
    """The rows with costs of 9 digits: together what they were together, rounded to 9 digits; each within 1e-9 of what it was.

    Each is rounded down, and what is missing then is given, a unit each, to those that lost the most (the largest remainder method).
    """
    exact = [cost for row in rows for cost in (row.cpu_cost, row.ram_cost, row.gpu_cost)]
    with localcontext(WIDE):
        short = [cost.quantize(QUANTUM, rounding=ROUND_DOWN) for cost in exact]
        missing = exact_sum(exact).quantize(QUANTUM, rounding=ROUND_HALF_EVEN) - exact_sum(short)
        lost = sorted(range(len(exact)), key=lambda at: (short[at] - exact[at], at))
        for at in lost[: int(missing / QUANTUM)]:
            short[at] += QUANTUM
    costs = iter(short)
    return [row.with_costs(cpu=cpu, ram=ram, gpu=gpu) for row, cpu, ram, gpu in zip(rows, costs, costs, costs, strict=True)]

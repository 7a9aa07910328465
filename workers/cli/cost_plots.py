"""Costs as a table with bars, and as a picture. A picture takes matplotlib, which is large and only installed where it is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from shared.costs.model import IDLE, IDLE_OR_OTHER
from workers.cli import output
from workers.cli.failures import CommandError, ExitCode

_BAR: Final = 30
"""Characters of the longest bar."""
_MOST: Final = 40
"""Bars of a picture; the rest is one more."""
_ID_END: Final = 12
_PARTS: Final = (("gpu_cost", "GPU", "#3b6fb6"), ("cpu_cost", "CPU", "#e08a3c"), ("ram_cost", "memory", "#6aa667"))


def table(totals: Sequence[Mapping[str, Any]], heading: str) -> None:
    """Totals to standard output, each with its share as a bar; what was idle is pale."""
    from rich.bar import Bar
    from rich.table import Table
    from rich.text import Text

    from workers.cli.costs import usd

    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column(heading, no_wrap=True)
    named = any(one.get("name") for one in totals)
    if named:
        shown.add_column("NAME", no_wrap=True)
    for name in ("USD", "GPU", "CPU", "MEMORY", "GPU-H", "CORE-H"):
        shown.add_column(name, no_wrap=True, justify="right")
    shown.add_column("", no_wrap=True)
    most = max((Decimal(one["total_cost"]) for one in totals), default=Decimal(0)) or Decimal(1)
    for one in totals:
        style = "dim" if one["idle"] else ""
        money = [usd(one[name]) for name in ("total_cost", "gpu_cost", "cpu_cost", "ram_cost")]
        hours = [usd(one[name]) for name in ("gpu_hours", "cpu_core_hours")]
        bar = Bar(size=float(most), begin=0, end=float(one["total_cost"]), width=_BAR, color="bright_black" if one["idle"] else "blue")
        own_name = [output.safe(str(one.get("name") or "-"))] if named else []
        cells = [output.safe(str(one["key"]))[:120] + _idle(one), *own_name, money[0] + _star(one), *money[1:], *hours]
        shown.add_row(*(Text(cell, style=style) for cell in cells), bar)
    output.out().print(shown)


def draw(answer: Mapping[str, Any], path: Path) -> None:
    """Write a PNG with a bar for each total, parted into GPUs, cores and memory. Raises CommandError."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CommandError("--png needs matplotlib: pip install 'gpufleet[plots]'", code=ExitCode.USAGE) from error

    totals = list(answer["totals"])
    chosen, rest = totals[:_MOST], totals[_MOST:]
    names = bars(totals)
    figure = Figure(figsize=(9, 1.2 + 0.32 * max(len(names), 1)), layout="constrained")
    axes = figure.subplots()
    left = [0.0] * len(names)
    for field, title, colour in _PARTS:
        widths = [float(one[field]) for one in chosen] + ([float(sum(Decimal(one[field]) for one in rest))] if rest else [])
        axes.barh(range(len(names)), widths, left=left, color=colour, label=title)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("USD; * without the hours whose price nobody knows" if any(map(_star, totals)) else "USD")
    axes.set_title(f"{answer['region']}, {output.moment(answer['start'])} to {output.moment(answer['end'])}", fontsize=10)
    if names:
        axes.legend(loc="lower right")
    try:
        figure.savefig(path, format="png", dpi=120)
    except OSError as error:
        raise CommandError.at("--png", str(path), f"can't be written: {error.strerror or error}") from error


def bars(totals: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of a picture's bars, with the marks that the table has."""
    chosen, rest = totals[:_MOST], totals[_MOST:]
    more = [f"{len(rest)} more{'*' if any(map(_star, rest)) else ''}"] if rest else []
    return [_label(_called(one)) + _idle(one) + _star(one) for one in chosen] + more


def _called(one: Mapping[str, Any]) -> str:
    """What a bar is called: a job by its name and the random end of its id."""
    key, name = str(one["key"]), one.get("name")
    return f"{name[:30]} {key[-_ID_END:]}" if name else key


def _idle(one: Mapping[str, Any]) -> str:
    """What tells the idle of a kind of nodes from what was used of it."""
    return " (idle)" if one["idle"] and one["key"] not in {IDLE, IDLE_OR_OTHER} else ""


def _star(one: Mapping[str, Any]) -> str:
    return "*" if Decimal(one["unpriced_core_hours"]) or Decimal(one["unpriced_gpu_hours"]) else ""


def _label(key: str) -> str:
    """A name for an axis: of printable ASCII and Latin-1, which the built-in font has, and without `$`, which would begin a formula."""
    plain = "".join(one if one.isprintable() and ord(one) < 0x250 else "?" for one in key).replace("$", r"\$")
    return plain if len(plain) <= 48 else f"{plain[:47]}…"

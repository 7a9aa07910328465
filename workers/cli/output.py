"""What a command writes: results to standard output, everything else to standard error.

A program that reads standard output gets nothing but JSON with `--json`; colours and moving parts appear only on a terminal (rich
looks, and honours NO_COLOR).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from workers.cli.failures import CommandError

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 4096

COLOURS = {
    "queued": "white",
    "claimed": "cyan",
    "pending": "cyan",
    "running": "blue",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
}


@cache
def out() -> Console:
    """Standard output."""
    from rich.console import Console

    # Where no terminal sets a width, somebody greps: as wide as it has to be.
    return Console(width=None if sys.stdout.isatty() else _WIDE, highlight=False)


@cache
def err() -> Console:
    """Standard error."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False)


def say(text: str) -> None:
    """One line about what happens, on standard error."""
    err().print(text, markup=False)


def tell(error: CommandError) -> None:
    """An error and its faults, on standard error."""
    from rich.text import Text

    err().print(Text.assemble(("error: ", "bold red"), error.message))
    for fault in error.faults:
        err().print(Text(f"  {fault}"))


def write(text: str) -> None:
    """Text to standard output as it is; no markup, no wrapping."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_json(document: Any) -> None:
    """A document to standard output: indented for a terminal, on one line for a program."""
    write(json.dumps(document, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """A table to standard output; a cell that is a state gets its colour. `empty` is said, on standard error, when there is no row."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, no_wrap=True)
    for row in rows:
        shown.add_row(*(Text(text, style=COLOURS.get(text, "")) for text in map(cell, row)))
    if not shown.row_count:
        say(empty)
    else:
        out().print(shown)


def pairs(items: Iterable[tuple[str, Any]]) -> None:
    """Names and values, one a line; those without a value are left out."""
    from rich.text import Text

    known = [(name, cell(value)) for name, value in items if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        out().print(Text.assemble((f"{name:<{width}}  ", "bold"), (value, COLOURS.get(value, ""))))


def cell(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name}={cell(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(cell(one) for one in value)
    return str(value)


def moment(text: str | None) -> str:
    """A time of the API in this machine's zone, to the second."""
    if not text:
        return "-"
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:
        return text


def age(text: str | None) -> str:
    """How long ago a time of the API was, in its largest unit."""
    if not text:
        return "-"
    try:
        seconds = int((datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds())
    except (ValueError, TypeError):
        return text
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{max(seconds, 0)}s"

"""What a command writes: results to standard output, everything else to standard error.

A program that reads standard output gets nothing but JSON with `--json`; colours and moving parts appear only on a terminal (rich
looks, and honours NO_COLOR).
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from workers.cli.failures import CommandError

if TYPE_CHECKING:
    from rich.console import Console

_WIDE = 4096
_LONGEST_CELL = 120
"""Characters of a table's cell; whoever wants the whole of it asks for the one thing, or for `--json`."""
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of Unicode that steer a terminal or the order of what is read: controls, bidi overrides, lone surrogates, separators."""
_JOINERS = "\u200c\u200d"
"""Of the same categories, but needed to write Persian, Indic scripts and emoji."""
_COLOUR = re.compile(r"(\x1b\[[0-9;]{0,32}m)")

COLOURS = {
    "queued": "white",
    "claimed": "cyan",
    "pending": "cyan",
    "running": "blue",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
    "open": "green",
    "draining": "yellow",
    "drained": "yellow",
    "delivered": "green",
    "disabled": "red",
    "enabled": "green",
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
    err().print(safe(text), markup=False)


def tell(error: CommandError) -> None:
    """An error and its faults, on standard error."""
    from rich.text import Text

    err().print(Text.assemble(("error: ", "bold red"), safe(error.message)))
    for fault in error.faults:
        if str(fault) != error.message:
            err().print(Text(f"  {safe(str(fault))}"))


def write(text: str) -> None:
    """A line to standard output; no markup, no wrapping, and nothing in it that steers a terminal."""
    _put(safe(text))


def write_text(text: str) -> None:
    """Text of several lines to standard output, made safe as one line is."""
    _put(safe(text, keep="\n\t"))


def write_log(line: str) -> None:
    """A line of a log: as it is for a program, made safe for a terminal, where only its colours stay."""
    if not sys.stdout.isatty():
        _put(line)
        return
    parts = _COLOUR.split(line)
    told = "".join(part if _COLOUR.fullmatch(part) else safe(part, keep="\t") for part in parts)
    _put(f"{told}\x1b[0m" if len(parts) > 1 else told)


def write_json(document: Any) -> None:
    """A document to standard output: indented for a terminal, on one line for a program."""
    _put(_json(document, indent=2 if sys.stdout.isatty() else None))


def write_json_line(document: Any) -> None:
    """One of many documents to standard output, each on a line of its own."""
    _put(_json(document))


def _json(document: Any, *, indent: int | None = None) -> str:
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    # JSON leaves some of them as they are, and lone surrogates could not be written at all; as escapes they mean the same.
    return "".join(f"\\u{ord(one):04x}" if _steers(one) and one != "\n" and ord(one) < 0x10000 else one for one in text)


def _put(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def safe(text: str, *, keep: str = "") -> str:
    """Text from outside with everything shown that would steer a terminal or turn the order of reading: `\\x1b`, `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in keep or not _steers(one) else one.encode("unicode_escape").decode() for one in text)


def _steers(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN and character not in _JOINERS


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """A table to standard output; a cell that is a state gets its colour. `empty` is said, on standard error, when there is no row."""
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column, no_wrap=True)
    for row in rows:
        shown.add_row(*(Text(text, style=COLOURS.get(text, "")) for text in map(_short, row)))
    if not shown.row_count:
        say(empty)
    else:
        out().print(shown)


def pairs(items: Iterable[tuple[str, Any]]) -> None:
    """Names and values, one a line; those without a value are left out."""
    from rich.text import Text

    known = [(name, safe(cell(value))) for name, value in items if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        out().print(Text.assemble((f"{name:<{width}}  ", "bold"), (value, COLOURS.get(value, ""))))


def _short(value: Any) -> str:
    text = safe(cell(value))
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


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
    """A time of the API to the second, in UTC as in every log."""
    if not text:
        return "-"
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):
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

"""Figures and their bounds: how they are shown, and what is written of them.

A figure is a count or a ratio within one run, so that it says the same on a fast machine and on a slow one. The few that are neither
(memory) are of a kind that hardly depends on the machine.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).with_name("results.json")
_PACKAGES = ("aiobotocore", "aiohttp", "kubernetes", "pydantic", "fastapi", "ministack")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How much is measured; `quick` is for a first look: fewer jobs and rounds, the same bounds."""

    quick: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One measured value beside its bound. `value` None: it could not be measured, and `note` says why; that counts as missed."""

    name: str
    value: float | None
    bound: float
    unit: str
    at_least: bool = False
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the bound holds."""
        if self.value is None:
            return False
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    @property
    def verdict(self) -> Literal["ok", "MISSED", "NOT MEASURED"]:
        """In words."""
        if self.value is None:
            return "NOT MEASURED"
        return "ok" if self.ok else "MISSED"

    def shown(self) -> tuple[str, str]:
        """The value and the bound, for people."""
        sign = "≥" if self.at_least else "≤"
        return ("-" if self.value is None else f"{self.value:,.4g}"), f"{sign} {self.bound:,.4g} {self.unit}"


def print_table(figures: Sequence[Figure]) -> None:
    """One table for people."""
    table = Table(title="gpufleet bench", show_lines=False)
    for column, justify in (("figure", "left"), ("measured", "right"), ("bound", "left"), ("", "left"), ("how", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type] # a text of the table above
    for figure in figures:
        value, bound = figure.shown()
        style = "green" if figure.ok else "bold red"
        table.add_row(figure.name, value, bound, f"[{style}]{figure.verdict}[/]", figure.note)
    sys.stderr.flush()
    Console(width=None if sys.stdout.isatty() else 180).print(table)


def write_results(figures: Sequence[Figure], options: Options, *, anew: bool, path: Path = RESULTS) -> None:
    """Everything that was measured, for programs. Names no machine and no place on one.

    Unless written `anew`, figures of earlier runs that were not measured now stay, each with a date of its own.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    versions = {"python": platform.python_version()} | {name: _version(name) for name in _PACKAGES}
    kept = {} if anew else {one["name"]: one for one in _earlier(path)}
    for figure in figures:
        kept[figure.name] = asdict(figure) | {"verdict": figure.verdict, "measured_at": now, "quick": options.quick}
    document = {"written_at": now, "versions": versions, "figures": list(kept.values())}
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _earlier(path: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["figures"]
    except (OSError, ValueError, KeyError):
        return []
    return found

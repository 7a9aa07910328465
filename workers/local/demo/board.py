"""What the demo shows: a live table on a terminal, plain lines elsewhere, and the summary."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from workers.local.demo.figures import Figure
from workers.local.demo.parcels import Fate, Parcel
from workers.local.demo.state import Seen

STATES = {
    "queued": "white",
    "claimed": "cyan",
    "pending": "cyan",
    "running": "blue",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "yellow",
}
_LINE_SECONDS = 2.0
_REASONS = 5


class Board:
    """Shows how it goes."""

    def __init__(self, console: Console, parcels: Sequence[Parcel], regions: Sequence[str]) -> None:
        self._console = console
        self._odd = [parcel for parcel in parcels if parcel.fate is not Fate.SUCCEED]
        self._regions = regions
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        self._begun = time.monotonic()
        self._told = 0.0
        self._line = ""

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        """Something that happened; it stays."""
        self._console.print(Text(f"{self._seconds:5.1f} s  {text}"))

    def show(self, seen: Seen) -> None:
        """How things stand."""
        if self._live is not None:
            self._live.update(Group(self._counts(seen), "", self._specials(seen)))
            return
        line = ", ".join(f"{seen.count(state)} {state}" for state in STATES if seen.count(state)) or "no jobs yet"
        now = time.monotonic()
        if line != self._line and now - self._told >= _LINE_SECONDS:
            self._line, self._told = line, now
            self.note(line)

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _counts(self, seen: Seen) -> Table:
        table = Table(title=f"jobs after {self._seconds:.0f} s", title_justify="left", box=None, header_style="bold")
        table.add_column("region")
        for state, colour in STATES.items():
            table.add_column(state, justify="right", style=colour)
        counts = seen.states()
        for region in self._regions:
            table.add_row(region, *(str(counts.get((region, state), 0) or "·") for state in STATES))
        table.add_row("all", *(str(seen.count(state) or "·") for state in STATES), style="bold")
        return table

    def _specials(self, seen: Seen) -> Table:
        table = Table(box=None, show_header=False)
        for parcel in self._odd:
            jobs = seen.of(parcel)
            state = jobs[0]["status"] if jobs else "-" if parcel.accepted else "no job"
            table.add_row(parcel.reference, str(parcel.way), str(parcel.fate), Text(state, style=STATES.get(state, "dim")))
        return table


def summary(console: Console, figures: Sequence[Figure], seconds: float) -> bool:
    """Print every figure; whether all are right."""
    console.print()
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        mark = Text("✓", style="green") if figure.right else Text("✗", style="bold red")
        expected = "" if figure.wanted == figure.found else f"   (expected {figure.wanted})"
        console.print(Text.assemble("  ", mark, f" {figure.name:<{width}}  {figure.found:>3}{expected}"))
        shown = [*figure.why[:_REASONS], *([f"and {len(figure.why) - _REASONS} more"] if len(figure.why) > _REASONS else [])]
        for line in shown:
            console.print(Text(f"      {line}", style="red"))
    right = all(figure.right for figure in figures)
    console.print()
    verdict = "every figure is right" if right else "NOT every figure is right"
    console.print(
        Text(f"{verdict}; {seconds:.1f} s from the first job sent to the last one ended", style="bold green" if right else "bold red")
    )
    return right

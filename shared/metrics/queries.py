"""Questions about what was measured of devices, and their answers; whoever keeps the figures implements `MetricQueries`.

A query is a value and never text, so that nothing in a label can become a part of somebody's query language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from shared.errors import InvalidError, Problem
from shared.metrics.series import Label
from shared.metrics.vocabulary import Measure

LONGEST_VALUE: Final = 1024
"""Of a label: a dimension of CloudWatch has at most so many characters."""


class Aggregation(StrEnum):
    """What is made of the devices of a group, over the window that ends at a slot (`Slots.lookback`; its end does not belong to it)."""

    AVG = "avg"
    """The mean of all samples."""
    MAX = "max"
    """The greatest sample."""
    SUM = "sum"
    """The sum over the devices: that of all samples, divided by the number of scrapes. What was there half of the time counts half."""
    COUNT = "count"
    """How many devices had this measure: the number of samples, divided by the number of scrapes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """Of which measure, aggregated how, in groups of which labels, of the devices that have which labels.

    A device without one of the labels of `by` (idle, and so of no job) is in no group.
    """

    measure: Measure
    aggregation: Aggregation = Aggregation.AVG
    by: tuple[Label, ...] = ()
    filters: Mapping[Label, str] = field(default_factory=dict)

    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with it."""
        found = [
            Problem(pointer=f"/by/{index}", value=label, rule="must be named once")
            for index, label in enumerate(self.by)
            if label in self.by[:index]
        ]
        for label, value in self.filters.items():
            if not value or len(value) > LONGEST_VALUE or not value.isprintable():
                rule = f"must be 1 to {LONGEST_VALUE} printable characters"
                found.append(Problem(pointer=f"/filters/{label}", value=value, rule=rule))
        return tuple(found)


class Point(NamedTuple):
    """The value at a slot; None where nothing was measured."""

    time: datetime
    value: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The answer for one group: its labels of `Query.by`, and a point for each slot, at least one of which has a value."""

    labels: Mapping[Label, str]
    points: Sequence[Point]


class MetricQueries(Protocol):
    """Answers queries. Implementations give the same answers on the same samples, for steps of whole minutes and for instants."""

    async def range(self, query: Query, start: object, end: object, step: object = None) -> list[Series]:
        """The series of a range, ordered by their labels; times and step as `slots_of` takes them.

        Raises InvalidError with all that is wrong with the query and the range, and UnavailableError.
        """
        ...

    async def instant(self, query: Query, at: object = None) -> list[Series]:
        """One point a group: of the newest minute, of the last five before `at` (None: now), in which its region was scraped.

        Its time is the end of that minute, and of several regions' the earliest; the range has the same value there, for one region. A
        group that has no sample in that minute is gone.

        Raises InvalidError, UnavailableError.
        """
        ...


def query_of(measure: str, aggregation: str = "avg", by: Iterable[str] = (), filters: Mapping[str, str] | None = None) -> Query:
    """The query that somebody has written in words. Raises InvalidError with every word that is none of ours."""
    problems: list[Problem] = []

    def one(kind: type[StrEnum], pointer: str, word: str) -> Any:
        try:
            return kind(word)
        except ValueError:
            problems.append(Problem(pointer=pointer, value=word, rule=f"must be one of {', '.join(kind)}"))
            return None

    labels = tuple(one(Label, f"/by/{index}", word) for index, word in enumerate(by))
    chosen = {one(Label, f"/filters/{name}", name): value for name, value in (filters or {}).items()}
    made = Query(
        measure=one(Measure, "/measure", measure), aggregation=one(Aggregation, "/aggregation", aggregation), by=labels, filters=chosen
    )
    if problems:
        raise InvalidError(problems)
    return made


def share(parts: Iterable[Series], wholes: Iterable[Series]) -> list[Series]:
    """Parts of wholes in percent, by groups of the same labels: VRAM used of VRAM there is. No value where the whole has none or is 0."""
    of = {tuple(sorted(one.labels.items())): {point.time: point.value for point in one.points} for one in wholes}
    found = []
    for part in parts:
        whole = of.get(tuple(sorted(part.labels.items())), {})
        points = [
            Point(time, value / most * 100 if value is not None and (most := whole.get(time)) else None) for time, value in part.points
        ]
        found.append(Series(labels=part.labels, points=points))
    return found

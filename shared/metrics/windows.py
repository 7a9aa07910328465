"""How two so different stores give the same answers: each is only asked for sums, counts and maxima of samples in windows of time.

Prometheus keeps the samples of each device, CloudWatch only statistic sets of many. Of both, the sum of all samples in a window, their
number and their greatest can be had exactly, for any group of devices; but not, say, the mean of each device's mean, of which a statistic
set knows nothing. So an answer is worked out here, once, from those three and from the number of scrapes: a mean is sum by number of
samples, a sum over devices is sum by number of scrapes.

A window takes the sample at its beginning and leaves the one at its end to the next, as CloudWatch's periods do. It ends at the last whole
minute before its slot: CloudWatch knows no finer one, and Prometheus is asked the same where the step is of whole minutes. For other steps
Prometheus answers to the second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from shared.clock import Clock
from shared.metrics.queries import Aggregation, Point, Query, Series
from shared.metrics.series import SCRAPED_DEVICES, Label
from shared.metrics.steps import MINUTE, Slots, instant_of, slots_of

_STALE: Final = timedelta(minutes=5)
"""How old an instant's answer may be, as in Prometheus."""

Group = tuple[str, ...]
"""The values of the labels that were asked for, in their order."""
Values = Mapping[Group, Sequence[float | None]]
"""By group, a value for each window; None where there is no sample in it."""


class Statistic(StrEnum):
    """What is made of all samples of a group in a window."""

    COUNT = "count"
    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """One statistic of the series of a name; `by` always has the region."""

    name: str
    statistic: Statistic
    by: tuple[Label, ...]
    filters: Mapping[Label, str] = field(default_factory=dict)


class Windows(Protocol):
    """Keeps samples."""

    async def read(self, wanted: Sequence[Wanted], slots: Slots) -> list[Values]:
        """For each its groups, those that have any sample. Raises InvalidError (CloudWatch keeps no such groups), UnavailableError."""
        ...


def last_minute(moment: datetime) -> int:
    """The end of the last whole minute, in seconds since 1970."""
    return int(moment.timestamp()) // MINUTE * MINUTE


class WindowQueries:
    """`MetricQueries` over whatever keeps the samples."""

    def __init__(self, windows: Windows, clock: Clock) -> None:
        self._windows = windows
        self._clock = clock

    async def range(self, query: Query, start: object, end: object, step: object = None) -> list[Series]:
        """See `MetricQueries.range`."""
        slots = slots_of(start, end, step, now=self._clock.now(), also=query.problems())
        groups = _merged(query, await self._by_region(query, slots))
        return _series(query, groups, dict.fromkeys(groups, slots.times))

    async def instant(self, query: Query, at: object = None) -> list[Series]:
        """See `MetricQueries.instant`."""
        end = instant_of(at, now=self._clock.now(), also=query.problems())
        latest = datetime.fromtimestamp(last_minute(end), UTC)
        slots = Slots(start=latest - _STALE + timedelta(minutes=1), end=latest, step=MINUTE)
        parts = await self._by_region(query, slots, scrapes=True)
        newest = _newest(parts.scraped)
        current = _only(parts, newest)
        times: dict[Group, list[datetime]] = {}
        for one in current.numerators:
            group, time = _group(query, one), slots.times[newest[one[0]]]
            times[group] = [min([time, *times.get(group, ())])]
        return _series(query, _merged(query, current), times)

    async def _by_region(self, query: Query, slots: Slots, *, scrapes: bool = False) -> _Parts:
        """What was asked for, of each region apart; the region comes first in each group. With `scrapes`, they are read in any case."""
        wanted = [
            Wanted(name=query.measure, statistic=statistic, by=_labels(query), filters=query.filters)
            for statistic in _STATISTICS[query.aggregation]
        ]
        by_scrape = query.aggregation in {Aggregation.SUM, Aggregation.COUNT}
        if by_scrape or scrapes:
            where: Mapping[Label, str] = {label: value for label, value in query.filters.items() if label is Label.REGION}
            wanted.append(Wanted(name=SCRAPED_DEVICES, statistic=Statistic.COUNT, by=(Label.REGION,), filters=where))
        found = await self._windows.read(wanted, slots)
        numerators, divisors = found[0], found[1] if query.aggregation is Aggregation.AVG else None
        scraped = found[-1] if by_scrape or scrapes else {}
        if by_scrape:
            none: Sequence[float | None] = [None] * len(slots)
            divisors = {group: scraped.get(group[:1], none) for group in numerators}
        return _Parts(numerators=numerators, divisors=divisors, scraped=scraped, slots=len(slots))


_STATISTICS: Final[Mapping[Aggregation, Sequence[Statistic]]] = {
    Aggregation.MAX: (Statistic.MAX,),
    Aggregation.AVG: (Statistic.SUM, Statistic.COUNT),
    Aggregation.SUM: (Statistic.SUM,),
    Aggregation.COUNT: (Statistic.COUNT,),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """Values by group, of which the region is the first; with divisors, values are still to be divided. `scraped`: scrapes by region."""

    numerators: Values
    divisors: Values | None = None
    scraped: Values = field(default_factory=dict)
    slots: int


def _newest(scraped: Values) -> dict[str, int]:
    """The newest window of each region in which it was scraped. A group tells nothing of that: it may be that of a job that has ended."""
    known = {region: [index for index, count in enumerate(counts) if count] for (region,), counts in scraped.items()}
    return {region: indices[-1] for region, indices in known.items() if indices}


def _only(parts: _Parts, windows: Mapping[str, int]) -> _Parts:
    """One window of each region, and the groups that have anything in it."""

    def only(values: Values) -> Values:
        return {group: [found[windows[group[0]]]] for group, found in values.items() if group[0] in windows}

    numerators = {group: values for group, values in only(parts.numerators).items() if values[0] is not None}
    return _Parts(numerators=numerators, divisors=None if parts.divisors is None else only(parts.divisors), slots=1)


def _labels(query: Query) -> tuple[Label, ...]:
    """Those of `_Parts`' groups."""
    return (Label.REGION, *(label for label in query.by if label is not Label.REGION))


def _group(query: Query, group: Group) -> Group:
    """Of a group of `_Parts`, that of the answer which it is a part of."""
    of = dict(zip(_labels(query), group, strict=True))
    return tuple(of[label] for label in query.by)


def _merged(query: Query, parts: _Parts) -> dict[Group, list[float | None]]:
    """The answer: divided, and groups of several regions made one where the query doesn't keep regions apart."""
    pooled: dict[Group, list[list[tuple[float, float | None]]]] = defaultdict(lambda: [[] for _ in range(parts.slots)])
    for group, values in parts.numerators.items():
        divisors = parts.divisors.get(group) if parts.divisors is not None else None
        into = pooled[_group(query, group)]
        for index, value in enumerate(values):
            divisor = divisors[index] if divisors is not None else None
            if value is not None and (parts.divisors is None or divisor):
                into[index].append((value, divisor))
    return {group: [_pool(query.aggregation, found) for found in slots] for group, slots in pooled.items()}


def _pool(aggregation: Aggregation, found: Sequence[tuple[float, float | None]]) -> float | None:
    if not found:
        return None
    if aggregation is Aggregation.MAX:
        return max(value for value, _ in found)
    if aggregation is Aggregation.AVG:
        return sum(value for value, _ in found) / sum(divisor or 0.0 for _, divisor in found)
    return sum(value / divisor for value, divisor in found if divisor)


def _series(query: Query, groups: Mapping[Group, Sequence[float | None]], times: Mapping[Group, Sequence[datetime]]) -> list[Series]:
    return [
        Series(
            labels=dict(zip(query.by, group, strict=True)),
            points=[Point(time, value) for time, value in zip(times[group], values, strict=True)],
        )
        for group, values in sorted(groups.items())
        if any(value is not None for value in values)
    ]

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
        regions = await self._by_region(query, slots)
        return _series(query, _merged(query, regions), slots.times)

    async def instant(self, query: Query, at: object = None) -> list[Series]:
        """See `MetricQueries.instant`."""
        end = instant_of(at, now=self._clock.now(), also=query.problems())
        newest = datetime.fromtimestamp(last_minute(end), UTC)
        slots = Slots(start=newest - _STALE + timedelta(minutes=1), end=newest, step=MINUTE)
        regions = await self._by_region(query, slots)
        return _series(query, _merged(query, _newest(regions)), [end])

    async def _by_region(self, query: Query, slots: Slots) -> _Parts:
        """What was asked for, of each region apart; the region comes first in each group."""
        by = (Label.REGION, *(label for label in query.by if label is not Label.REGION))

        def of(statistic: Statistic) -> Wanted:
            return Wanted(name=query.measure, statistic=statistic, by=by, filters=query.filters)

        match query.aggregation:
            case Aggregation.MAX:
                (maxima,) = await self._windows.read([of(Statistic.MAX)], slots)
                return _Parts(numerators=maxima, slots=len(slots))
            case Aggregation.AVG:
                sums, counts = await self._windows.read([of(Statistic.SUM), of(Statistic.COUNT)], slots)
                return _Parts(numerators=sums, divisors=counts, slots=len(slots))
            case _:
                where: Mapping[Label, str] = {label: value for label, value in query.filters.items() if label is Label.REGION}
                scrapes = Wanted(name=SCRAPED_DEVICES, statistic=Statistic.COUNT, by=(Label.REGION,), filters=where)
                summed = of(Statistic.SUM if query.aggregation is Aggregation.SUM else Statistic.COUNT)
                sums, scraped = await self._windows.read([summed, scrapes], slots)
                none: Sequence[float | None] = [None] * len(slots)
                return _Parts(numerators=sums, divisors={group: scraped.get(group[:1], none) for group in sums}, slots=len(slots))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """Values by group, of which the region is the first; with divisors, values are still to be divided."""

    numerators: Values
    divisors: Values | None = None
    slots: int


def _newest(parts: _Parts) -> _Parts:
    """Of each region only the newest window that has anything."""
    newest: dict[str, int] = {}
    for group, values in parts.numerators.items():
        known = max((index for index, value in enumerate(values) if value is not None), default=-1)
        newest[group[0]] = max(known, newest.get(group[0], -1))

    def only(values: Values) -> Values:
        return {
            group: [found[newest[group[0]]] if newest[group[0]] >= 0 else None] for group, found in values.items() if group[0] in newest
        }

    return _Parts(numerators=only(parts.numerators), divisors=None if parts.divisors is None else only(parts.divisors), slots=1)


def _merged(query: Query, parts: _Parts) -> dict[Group, list[float | None]]:
    """The answer: divided, and groups of several regions made one where the query doesn't keep regions apart."""
    pooled: dict[Group, list[list[tuple[float, float | None]]]] = defaultdict(lambda: [[] for _ in range(parts.slots)])
    names = (Label.REGION, *(label for label in query.by if label is not Label.REGION))
    place = [names.index(label) for label in query.by]
    for group, values in parts.numerators.items():
        divisors = parts.divisors.get(group) if parts.divisors is not None else None
        into = pooled[tuple(group[index] for index in place)]
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


def _series(query: Query, groups: Mapping[Group, Sequence[float | None]], times: Sequence[datetime]) -> list[Series]:
    return [
        Series(
            labels=dict(zip(query.by, group, strict=True)),
            points=[Point(time, value) for time, value in zip(times, values, strict=True)],
        )
        for group, values in sorted(groups.items())
        if any(value is not None for value in values)
    ]

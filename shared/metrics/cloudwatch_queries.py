"""Samples that CloudWatch keeps: statistic sets of rollups (`shared.metrics.series`), asked for by GetMetricData.

Only what was written can be read: a query is answered from the smallest rollup that has all its labels and loses no device of its groups.
Which groups there are, ListMetrics tells; AWS shows a new one there only after up to 15 minutes. A query whose labels are all given by
its filters or are the region, which is known here, needs no list and has no such delay.

CloudWatch keeps every minute for 15 days, so within the 8 days of a range any period of whole minutes can be asked for.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from shared.clock import Clock, SystemClock
from shared.errors import InvalidError, Problem, UnavailableError
from shared.metrics.series import DEVICES_NAMESPACE, EVERY_DEVICE_HAS, SCRAPED_DEVICES, Label, Rollup
from shared.metrics.steps import MINUTE, Slots
from shared.metrics.windows import Group, Statistic, Values, Wanted, WindowQueries, last_minute

BATCH: Final = 500
"""Queries of one GetMetricData request (an AWS limit)."""
MOST_METRICS: Final = 5_000
"""Of one query: AWS takes 0.01 USD for each thousand that are asked for."""
_TOGETHER: Final = 4
"""Requests under way at a time; AWS allows 50 GetMetricData requests a second, for everybody in the account."""
_LISTED_FOR: Final = timedelta(minutes=1)
_RECENT: Final = timedelta(hours=3)
"""ListMetrics can leave out what had nothing within this time, and only this one."""
_STATS: Final = {Statistic.COUNT: "SampleCount", Statistic.SUM: "Sum", Statistic.MAX: "Maximum"}

Dimensions = Mapping[Label, str]


def cloudwatch_queries(client: Any, *, regions: Sequence[str], rollups: Iterable[Rollup], clock: Clock | None = None) -> WindowQueries:
    """`MetricQueries` behind an aiobotocore CloudWatch client; `rollups` are those that are written, of those regions."""
    chosen = clock or SystemClock()
    return WindowQueries(CloudWatchWindows(client, regions=regions, rollups=rollups, clock=chosen), chosen)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Metric:
    """One metric of CloudWatch, and the group that it belongs to."""

    wanted: int
    group: Group
    request: Mapping[str, Any]


@dataclass(slots=True)
class _Listed:
    """What a list said, and until when it holds."""

    until: datetime
    found: list[Dimensions] = field(default_factory=list)


class CloudWatchWindows:
    """`Windows` over GetMetricData."""

    def __init__(self, client: Any, *, regions: Sequence[str], rollups: Iterable[Rollup], clock: Clock) -> None:
        self._client = client
        self._regions = tuple(regions)
        self._rollups = sorted(rollups, key=lambda rollup: (len(rollup), sorted(rollup)))
        self._clock = clock
        self._listed: dict[tuple[object, ...], _Listed] = {}
        self._room = asyncio.Semaphore(_TOGETHER)

    async def read(self, wanted: Sequence[Wanted], slots: Slots) -> list[Values]:
        """A request for each 500 metrics and page, and for each page of a list that isn't known. Raises InvalidError, UnavailableError."""
        ends = [last_minute(time) for time in slots.times]
        period = period_of(slots)
        metrics: list[_Metric] = []
        for index, one in enumerate(wanted):
            for dimensions in await self._metrics(one, slots):
                group = tuple(dimensions[label] for label in one.by)
                metrics.append(_Metric(wanted=index, group=group, request=_stat(one, dimensions, period)))
        if len(metrics) > MOST_METRICS:
            rule = f"must be of fewer groups: CloudWatch has {len(metrics)} metrics of them, and {MOST_METRICS} can be read; use filters"
            raise InvalidError([Problem(pointer="/by", value=None, rule=rule)])
        begin, end = ends[0] - slots.lookback, ends[-1]
        batches = [metrics[first : first + BATCH] for first in range(0, len(metrics), BATCH)]
        answers = await asyncio.gather(*(self._data(batch, begin, end) for batch in batches))
        return _values(wanted, zip(metrics, itertools.chain.from_iterable(answers), strict=True), ends, slots.lookback)

    async def _metrics(self, wanted: Wanted, slots: Slots) -> list[Dimensions]:
        """The dimensions of every metric that the answer is made of."""
        rollup = frozenset({Label.REGION}) if wanted.name == SCRAPED_DEVICES else self._rollup(wanted)
        if rollup <= {Label.REGION, *wanted.filters}:
            regions = self._regions if Label.REGION not in wanted.filters else (wanted.filters[Label.REGION],)
            return [{Label.REGION: region} | dict(wanted.filters) for region in regions]
        recent = slots.start > self._clock.now() - _RECENT
        return await self._list(wanted.name, rollup, wanted.filters, recent=recent)

    def _rollup(self, wanted: Wanted) -> Rollup:
        needed = {*wanted.by, *wanted.filters}
        for rollup in self._rollups:
            if needed <= rollup and _whole(rollup - needed, needed):
                return rollup
        kept = "; ".join(", ".join(sorted(rollup)) for rollup in self._rollups)
        rule = f"must be labels that one of the rollups in CloudWatch has: {kept} (GPUFLEET_METRICS_ROLLUPS says which are written)"
        raise InvalidError([Problem(pointer="/by", value=", ".join(sorted(needed)), rule=rule)])

    async def _list(self, name: str, rollup: Rollup, filters: Dimensions, *, recent: bool) -> list[Dimensions]:
        key = (name, rollup, frozenset(filters.items()), recent)
        now = self._clock.now()
        known = self._listed.get(key)
        if known is not None and now < known.until:
            return known.found
        self._listed = {one: listed for one, listed in self._listed.items() if now < listed.until}
        asked = [{"Name": label.value} | ({"Value": filters[label]} if label in filters else {}) for label in sorted(rollup)]
        request: dict[str, Any] = {"Namespace": DEVICES_NAMESPACE, "MetricName": name, "Dimensions": asked}
        if recent:
            request["RecentlyActive"] = "PT3H"
        listed = _Listed(now + _LISTED_FOR)
        while True:
            answer = await self._call("list_metrics", **request)
            for metric in answer.get("Metrics", ()):
                found = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
                if set(found) == rollup:  # those that have more dimensions are listed too
                    listed.found.append({Label(label): value for label, value in found.items()})
            if not answer.get("NextToken") or len(listed.found) > MOST_METRICS:
                break
            request["NextToken"] = answer["NextToken"]
        self._listed[key] = listed
        return listed.found

    async def _data(self, batch: Sequence[_Metric], begin: int, end: int) -> list[dict[int, float]]:
        """Of each metric of a batch its values by the beginnings of their periods. Answers have pages, and a metric may be on several."""
        request: dict[str, Any] = {
            "MetricDataQueries": [{"Id": f"m{index}", "MetricStat": metric.request} for index, metric in enumerate(batch)],
            "StartTime": datetime.fromtimestamp(begin, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
            "ScanBy": "TimestampAscending",
        }
        found: list[dict[int, float]] = [{} for _ in batch]
        while True:
            async with self._room:
                answer = await self._call("get_metric_data", **request)
            for result in answer.get("MetricDataResults", ()):
                if result.get("StatusCode") in {"InternalError", "Forbidden"}:
                    raise UnavailableError(f"CloudWatch: {result['StatusCode']}: {result.get('Messages') or ''}")
                times = (int(time.timestamp()) for time in result.get("Timestamps", ()))
                found[int(result["Id"][1:])] |= dict(zip(times, result.get("Values", ()), strict=True))
            if not answer.get("NextToken"):
                return found
            request["NextToken"] = answer["NextToken"]

    async def _call(self, operation: str, **request: Any) -> Any:
        """Throttles are tried again by the client first (`shared.aws.CONFIG`)."""
        try:
            return await getattr(self._client, operation)(**request)
        except ClientError as error:
            throttled = "Throttl" in error.response.get("Error", {}).get("Code", "")
            raise UnavailableError(f"CloudWatch: {error}", retry_after=5.0 if throttled else None) from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"CloudWatch {operation}: {error}") from error


def period_of(slots: Slots) -> int:
    """The longest period, in seconds, of which windows are made: CloudWatch counts periods from 1970, in whole minutes."""
    if slots.step % MINUTE:
        return MINUTE
    return math.gcd(last_minute(slots.start), slots.step, slots.lookback)


def _whole(further: Iterable[Label], needed: Iterable[Label]) -> bool:
    """Whether a rollup's further labels leave no device out: every device has them, or whoever has the labels that are asked for."""
    return all(label in EVERY_DEVICE_HAS or (label is Label.NAMESPACE and Label.JOB in needed) for label in further)


def _stat(wanted: Wanted, dimensions: Dimensions, period: int) -> Mapping[str, Any]:
    metric = {
        "Namespace": DEVICES_NAMESPACE,
        "MetricName": wanted.name,
        "Dimensions": [{"Name": label.value, "Value": value} for label, value in sorted(dimensions.items())],
    }
    return {"Metric": metric, "Period": period, "Stat": _STATS[wanted.statistic]}


def _values(
    wanted: Sequence[Wanted], answers: Iterable[tuple[_Metric, Mapping[int, float]]], ends: Sequence[int], lookback: int
) -> list[Values]:
    """Windows made of periods, groups made of metrics."""
    found: list[dict[Group, list[list[float]]]] = [defaultdict(lambda: [[] for _ in ends]) for _ in wanted]
    for metric, periods in answers:
        into = found[metric.wanted][metric.group]
        times = sorted(periods)
        low = high = 0
        for index, end in enumerate(ends):
            while low < len(times) and times[low] < end - lookback:
                low += 1
            while high < len(times) and times[high] < end:
                high += 1
            into[index] += [periods[time] for time in times[low:high]]
    return [
        {group: [_pool(one.statistic, values) for values in windows] for group, windows in groups.items()}
        for one, groups in zip(wanted, found, strict=True)
    ]


def _pool(statistic: Statistic, values: Sequence[float]) -> float | None:
    if not values:
        return None
    return max(values) if statistic is Statistic.MAX else math.fsum(values)

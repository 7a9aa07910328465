"""CloudWatch as AWS documents it: pages of lists and of data, batches, statuses, throttles. The emulator has none of it."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from shared.errors import InvalidError, UnavailableError
from shared.metrics import cloudwatch_queries as module
from shared.metrics.cloudwatch_queries import cloudwatch_queries, period_of
from shared.metrics.queries import Aggregation, Query
from shared.metrics.series import Label
from shared.metrics.steps import Slots
from shared.metrics.windows import WindowQueries
from tests.unit.metrics.history import BY_DEVICE, DEFAULT_ROLLUPS, USED, UTIL, Memory, device, scraped, statistic_sets, story
from tests.unit.metrics.test_queries import NOON, At, minute

REGIONS = ("us-east-1", "us-west-2")
NOW = NOON + timedelta(hours=2)


class Recorded:
    """An AWS CloudWatch over statistic sets: exact dimensions, periods from 1970, an end that doesn't belong to the range, small pages."""

    def __init__(self, data, *, page: int = 100_800, listed: int = 500) -> None:
        self._page, self._listed = page, listed
        self.requests: dict[str, list[dict]] = defaultdict(list)
        self.fails: list[Exception] = []
        self.status = "Complete"
        self._metrics: dict[tuple, list[tuple[int, dict]]] = defaultdict(list)
        for one in data:
            self._metrics[(one["MetricName"], _key(one["Dimensions"]))].append((int(one["Timestamp"].timestamp()), one["StatisticValues"]))

    async def list_metrics(self, **request):
        self.requests["list"].append(request)
        asked = request["Dimensions"]
        found = [
            {"MetricName": name, "Dimensions": [{"Name": label, "Value": value} for label, value in key]}
            for name, key in sorted(self._metrics)
            if name == request["MetricName"]
            and all(any(one["Name"] == label and one.get("Value", value) == value for label, value in key) for one in asked)
        ]
        first = int(request.get("NextToken", 0))
        more = {"NextToken": str(first + self._listed)} if first + self._listed < len(found) else {}
        return {"Metrics": found[first : first + self._listed]} | more

    async def get_metric_data(self, **request):
        self.requests["data"].append(request)
        if self.fails:
            raise self.fails.pop(0)
        assert len(request["MetricDataQueries"]) <= 500
        points = [
            (one["Id"], time, value)
            for one in request["MetricDataQueries"]
            for time, value in self._points(one["MetricStat"], request["StartTime"], request["EndTime"])
        ]
        first = int(request.get("NextToken", 0))
        shown = points[first : first + self._page]
        results = [
            {
                "Id": one["Id"],
                "StatusCode": self.status,
                "Timestamps": [time for name, time, _ in shown if name == one["Id"]],
                "Values": [value for name, _, value in shown if name == one["Id"]],
            }
            for one in request["MetricDataQueries"]
        ]
        return {"MetricDataResults": results} | ({"NextToken": str(first + self._page)} if first + self._page < len(points) else {})

    def _points(self, stat, start, end):
        assert stat["Period"] % 60 == 0
        buckets = defaultdict(list)
        for time, values in self._metrics.get((stat["Metric"]["MetricName"], _key(stat["Metric"]["Dimensions"])), []):
            if start.timestamp() <= time < end.timestamp():
                buckets[time // stat["Period"] * stat["Period"]].append(values[stat["Stat"]])
        merge = max if stat["Stat"] == "Maximum" else sum
        return [(datetime.fromtimestamp(time, UTC), merge(values)) for time, values in sorted(buckets.items())]


def _key(dimensions):
    return tuple(sorted((one["Name"], one["Value"]) for one in dimensions))


def recorded(samples, rollups=DEFAULT_ROLLUPS, **options) -> Recorded:
    return Recorded(statistic_sets(samples, rollups), **options)


def over(client: Recorded, rollups=DEFAULT_ROLLUPS) -> WindowQueries:
    return cloudwatch_queries(client, regions=REGIONS, rollups=rollups, clock=At(NOW))


def remembered(samples) -> WindowQueries:
    return WindowQueries(Memory(samples), At(NOW))


def close(answer):
    """Sums are made in another order, so that the last bit may differ."""
    return [(dict(one.labels), [(time, None if value is None else pytest.approx(value)) for time, value in one.points]) for one in answer]


def plain(answer):
    return [(dict(one.labels), list(one.points)) for one in answer]


BYS = [(), (Label.REGION,), (Label.NODE,), (Label.PROJECT,), (Label.NAMESPACE,), (Label.JOB,), (Label.NODE, Label.REGION)]


@pytest.mark.parametrize("by", BYS)
@pytest.mark.parametrize("aggregation", list(Aggregation))
@pytest.mark.parametrize(("start", "step"), [(0, 60), (13, 60), (13, 300), (10, 3600), (7, 45), (0, 420)])
async def test_the_same_answers_as_from_samples(by, aggregation, start, step):
    samples = story(NOON, 40)
    query = Query(measure=UTIL, aggregation=aggregation, by=by)
    span = (NOON + timedelta(seconds=start), NOON + timedelta(minutes=75), step)
    answer = await over(recorded(samples, page=37, listed=2)).range(query, *span)
    assert answer
    assert plain(answer) == close(await remembered(samples).range(query, *span))


async def test_filters_and_devices():
    samples = story(NOON, 10)
    rollups = (*DEFAULT_ROLLUPS, BY_DEVICE)
    for query in (
        Query(measure=USED, aggregation=Aggregation.SUM, by=(Label.DEVICE,), filters={Label.NODE: "n1"}),
        Query(measure=USED, by=(Label.JOB,), filters={Label.NAMESPACE: "gco-jobs"}),
        Query(measure=USED, filters={Label.JOB: "j1", Label.REGION: "us-east-1"}),
        Query(measure=USED, filters={Label.REGION: "us-west-2"}),
    ):
        answer = await over(recorded(samples, rollups), rollups).range(query, NOON, minute(9))
        assert plain(answer) == close(await remembered(samples).range(query, NOON, minute(9)))


async def test_what_is_known_is_not_listed():
    client = recorded(story(NOON, 3))
    queries = over(client)
    await queries.range(Query(measure=UTIL), NOON, minute(2))
    await queries.range(Query(measure=UTIL, filters={Label.NAMESPACE: "gco-jobs", Label.JOB: "j1"}), NOON, minute(2))
    assert not client.requests["list"]
    assert [len(request["MetricDataQueries"]) for request in client.requests["data"]] == [4, 4]
    for _ in range(3):
        await queries.range(Query(measure=UTIL, by=(Label.NODE,)), NOON, minute(2))
    (listed,) = client.requests["list"]  # a list holds for a minute
    assert listed["RecentlyActive"] == "PT3H"


async def test_an_old_range_lists_what_is_idle_now_too():
    client = recorded(story(NOON, 3))
    await over(client).range(Query(measure=UTIL, by=(Label.NODE,)), NOW - timedelta(hours=4), NOW)
    assert "RecentlyActive" not in client.requests["list"][0]


async def test_what_no_rollup_tells_is_refused():
    for query in (
        Query(measure=UTIL, by=(Label.DEVICE,)),
        Query(measure=UTIL, by=(Label.VENDOR,)),
        Query(measure=UTIL, by=(Label.NODE, Label.JOB)),
    ):
        with pytest.raises(InvalidError, match=r"/by.*must be labels that one of the rollups in CloudWatch has: region; "):
            await over(recorded([])).range(query, NOON, minute(2))


async def test_a_rollup_that_loses_idle_devices_never_stands_for_all():
    only_held = (frozenset({Label.REGION, Label.NAMESPACE}),)
    with pytest.raises(InvalidError):
        await over(recorded([], only_held), only_held).range(Query(measure=UTIL), NOON, minute(2))


async def test_five_hundred_a_request_and_an_end_to_what_is_asked(monkeypatch):
    samples = [device(minute(0), "us-east-1", f"n{number}", f"GPU-{number}", {UTIL: float(number % 7)}) for number in range(600)]
    samples.append(scraped(minute(0), "us-east-1", 600))
    client = recorded(samples)
    query = Query(measure=UTIL, by=(Label.NODE,))
    answer = await over(client).range(query, NOON, minute(2))
    assert len(answer) == 600
    assert sorted(len(request["MetricDataQueries"]) for request in client.requests["data"]) == [200, 500, 500]
    monkeypatch.setattr(module, "MOST_METRICS", 1000)
    with pytest.raises(InvalidError, match="CloudWatch has 1200 metrics of them, and 1000 can be read"):
        await over(client).range(query, NOON, minute(2))


async def test_what_cloudwatch_refuses():
    client = recorded(story(NOON, 3))
    client.fails = [
        ClientError({"Error": {"Code": "Throttling", "Message": "Rate exceeded"}}, "GetMetricData"),
        ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetMetricData"),
        EndpointConnectionError(endpoint_url="http://127.0.0.1"),
    ]
    for waits in (5.0, None, None):
        with pytest.raises(UnavailableError) as refusal:
            await over(client).range(Query(measure=UTIL), NOON, minute(2))
        assert refusal.value.retry_after == waits
    client.status = "InternalError"
    with pytest.raises(UnavailableError, match="InternalError"):
        await over(client).range(Query(measure=UTIL), NOON, minute(2))


@pytest.mark.parametrize(
    ("start", "step", "period"),
    [(0, 60, 60), (0, 300, 300), (59, 300, 300), (120, 300, 60), (0, 3600, 3600), (1800, 3600, 1800), (0, 90, 60)],
)
def test_periods_are_as_long_as_windows_allow(start, step, period):
    begin = NOON + timedelta(seconds=start)
    assert period_of(Slots(start=begin, end=begin + timedelta(hours=2), step=step)) == period

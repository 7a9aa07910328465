"""What is made of samples: means, maxima, sums and counts over the devices of a group."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import InvalidError
from shared.metrics.queries import Aggregation, Point, Query, Series, query_of, share
from shared.metrics.series import Label
from shared.metrics.vocabulary import Measure
from shared.metrics.windows import WindowQueries
from tests.unit.metrics.history import USED, UTIL, Memory, device, scraped, story

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


class At:
    """A clock that stands."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment


def minute(number: int, second: int = 7) -> datetime:
    return NOON + timedelta(minutes=number, seconds=second)


def queries(*samples, now: datetime = NOON + timedelta(hours=1)) -> WindowQueries:
    return WindowQueries(Memory(samples), At(now))


async def values(found: WindowQueries, query: Query, *, minutes: int = 2, step: int = 60) -> dict[tuple[str, ...], list[float | None]]:
    answer = await found.range(query, NOON + timedelta(minutes=1), NOON + timedelta(minutes=minutes), step)
    return {tuple(series.labels.values()): [point.value for point in series.points] for series in answer}


TWO = [
    device(minute(0), "us-east-1", "n1", "a", {UTIL: 10.0}, job="j1"),
    device(minute(0), "us-east-1", "n1", "b", {UTIL: 40.0}, job="j1"),
    device(minute(0), "us-east-1", "n2", "c", {UTIL: 70.0}),
    scraped(minute(0), "us-east-1", 3),
]


@pytest.mark.parametrize(("aggregation", "value"), [("avg", 40.0), ("max", 70.0), ("sum", 120.0), ("count", 3.0)])
async def test_over_all_devices(aggregation, value):
    assert await values(queries(*TWO), Query(measure=UTIL, aggregation=Aggregation(aggregation))) == {(): [value, None]}


async def test_in_groups_and_of_some():
    found = queries(*TWO)
    assert await values(found, Query(measure=UTIL, by=(Label.NODE,))) == {("n1",): [25.0, None], ("n2",): [70.0, None]}
    assert await values(found, Query(measure=UTIL, by=(Label.JOB, Label.NODE))) == {("j1", "n1"): [25.0, None]}
    assert await values(found, Query(measure=UTIL, by=(Label.DEVICE,), filters={Label.NODE: "n1", Label.JOB: "j1"})) == {
        ("a",): [10.0, None],
        ("b",): [40.0, None],
    }
    assert await values(found, Query(measure=Measure.POWER)) == {}


async def test_a_mean_is_of_samples_not_of_means():
    """A device that was seen once counts once, beside one that was seen three times."""
    samples = [scraped(minute(0, second), "us-east-1", 1) for second in (7, 27, 47)]
    samples += [device(minute(0, second), "us-east-1", "n1", "a", {UTIL: 30.0}) for second in (7, 27, 47)]
    samples.append(device(minute(0, 7), "us-east-1", "n1", "b", {UTIL: 70.0}))
    found = queries(*samples)
    assert await values(found, Query(measure=UTIL), minutes=2) == {(): [40.0, None]}
    assert await values(found, Query(measure=UTIL, aggregation=Aggregation.COUNT)) == {(): [pytest.approx(4 / 3), None]}


async def test_a_device_that_changes_its_job_in_a_window_is_one():
    samples = [scraped(minute(number), "us-east-1", 1) for number in range(5)]
    samples += [device(minute(number), "us-east-1", "n1", "a", {USED: 8.0}, job="j1" if number < 2 else "j2") for number in range(5)]
    found = queries(*samples)
    count, total = Query(measure=USED, aggregation=Aggregation.COUNT), Query(measure=USED, aggregation=Aggregation.SUM)
    options = {"minutes": 6, "step": 300}
    assert await values(found, count, **options) == {(): [1.0, 1.0]}
    by_job = Query(measure=USED, aggregation=Aggregation.SUM, by=(Label.JOB,))
    assert (await values(found, by_job, **options))[("j1",)][1] == pytest.approx(8 * 1 / 4)  # from 12:01 on, one of four scrapes
    assert await values(found, total, **options) == {(): [8.0, 8.0]}


async def test_regions_that_are_scraped_differently_add_up():
    samples = [
        *(scraped(minute(0, second), "us-east-1", 1) for second in (0, 20, 40)),
        *(device(minute(0, second), "us-east-1", "n1", "a", {USED: 6.0}) for second in (0, 20, 40)),
        scraped(minute(0), "us-west-2", 1),
        device(minute(0), "us-west-2", "n2", "b", {USED: 4.0}),
    ]
    found = queries(*samples)
    assert await values(found, Query(measure=USED, aggregation=Aggregation.SUM)) == {(): [10.0, None]}
    assert await values(found, Query(measure=USED, aggregation=Aggregation.COUNT)) == {(): [2.0, None]}
    assert await values(found, Query(measure=USED)) == {(): [pytest.approx(22 / 4), None]}


async def test_a_sample_at_the_end_of_a_window_is_of_the_next():
    found = queries(device(minute(1, 0), "us-east-1", "n1", "a", {UTIL: 5.0}))
    assert await values(found, Query(measure=UTIL)) == {(): [None, 5.0]}


async def test_an_instant_is_of_each_regions_newest_minute():
    samples = [
        *(scraped(minute(number), "us-east-1", 1) for number in (2, 3)),
        device(minute(2), "us-east-1", "n1", "gone", {UTIL: 1.0}),
        device(minute(3), "us-east-1", "n1", "a", {UTIL: 10.0}),
        *(scraped(minute(number, second), "us-west-2", 1) for number, second in ((4, 59), (5, 1))),
        device(minute(4, 59), "us-west-2", "n2", "b", {UTIL: 20.0}),
        device(minute(5, 1), "us-west-2", "n2", "b", {UTIL: 99.0}),
    ]
    found = queries(*samples, now=minute(5, 30))
    answer = await found.instant(Query(measure=UTIL, by=(Label.DEVICE,)))
    assert answer == [
        Series(labels={Label.DEVICE: "a"}, points=[Point(minute(4, 0), 10.0)]),
        Series(labels={Label.DEVICE: "b"}, points=[Point(minute(5, 0), 20.0)]),
    ]
    assert await found.instant(Query(measure=UTIL), minute(0, 30)) == []
    (later,) = await queries(*samples, now=minute(60)).instant(Query(measure=UTIL), minute(8, 59))
    assert later.points == [Point(minute(4, 0), pytest.approx((10.0 + 99.0) / 2))]


@pytest.mark.parametrize(("aggregation", "value"), [("avg", 30.0), ("max", 30.0), ("sum", 30.0), ("count", 1.0)])
async def test_an_instant_has_no_job_that_has_ended(aggregation, value):
    """Neither beside one that runs nor as the only one that ever ran, nor where nothing is left to be measured."""
    samples = [scraped(minute(number), region, 1) for number in range(4) for region in ("us-east-1", "us-west-2")]
    samples += [device(minute(number), "us-east-1", "n1", "a", {UTIL: 90.0}, job="ended") for number in range(2)]
    samples += [device(minute(number), "us-west-2", "n2", "b", {UTIL: 90.0}, job="before") for number in range(2)]
    samples += [device(minute(number), "us-west-2", "n2", "b", {UTIL: 30.0}, job="runs") for number in range(2, 4)]
    found = queries(*samples, now=minute(4, 20))
    how = Aggregation(aggregation)
    answer = await found.instant(Query(measure=UTIL, aggregation=how, by=(Label.JOB,)))
    assert answer == [Series(labels={Label.JOB: "runs"}, points=[Point(minute(4, 0), value)])]
    assert await found.instant(Query(measure=UTIL, aggregation=how, filters={Label.JOB: "ended"})) == []
    (then,) = await found.instant(Query(measure=UTIL, aggregation=how, filters={Label.JOB: "ended"}), minute(2, 20))
    assert then.points[0].time == minute(2, 0)


async def test_what_is_wrong_with_query_and_range_is_told_together():
    query = Query(measure=UTIL, by=(Label.NODE, Label.NODE), filters={Label.JOB: "", Label.NODE: "a\nb"})
    with pytest.raises(InvalidError) as refusal:
        await queries().range(query, NOON, NOON, 0)
    assert [problem.pointer for problem in refusal.value.problems] == ["/by/1", "/filters/job_id", "/filters/node", "/step", "/end"]
    with pytest.raises(InvalidError) as refusal:
        await queries().instant(query, "now")
    assert [problem.pointer for problem in refusal.value.problems] == ["/by/1", "/filters/job_id", "/filters/node", "/at"]


def test_a_query_in_words():
    made = query_of("gpu_power", "sum", ["node", "job_id"], {"region": "us-east-1"})
    assert made == Query(
        measure=Measure.POWER, aggregation=Aggregation.SUM, by=(Label.NODE, Label.JOB), filters={Label.REGION: "us-east-1"}
    )
    with pytest.raises(InvalidError) as refusal:
        query_of("power", "mean", ["node", "pod"], {"rack": "1"})
    assert [problem.pointer for problem in refusal.value.problems] == ["/by/1", "/filters/rack", "/measure", "/aggregation"]


async def test_a_share_of_two_series():
    samples = story(NOON, 3)
    found = queries(*samples)
    used = await found.range(Query(measure=USED, by=(Label.NODE,)), minute(1, 0), minute(3, 0))
    whole = [Series(labels=one.labels, points=[Point(time, 4000.0) for time, _ in one.points[:1]]) for one in used if one.labels[Label.NODE] == "n1"]  # fmt: skip  # noqa: E501
    shares = share(used, whole)
    assert [point.value for point in shares[0].points] == [37.5, None, None]
    assert [point.value for point in shares[1].points] == [None, None, None]

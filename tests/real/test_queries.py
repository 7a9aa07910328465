"""One history of GPUs, written to CloudWatch and scraped by Debian's prometheus: every question has the same answer in both."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from shared.aws import connect
from shared.clock import SystemClock
from shared.errors import InvalidError, UnavailableError
from shared.metrics.cloudwatch_queries import cloudwatch_queries
from shared.metrics.cloudwatch_writing import MetricWriter
from shared.metrics.devices import Device, Vendor
from shared.metrics.prometheus_queries import PrometheusWindows, prometheus_queries
from shared.metrics.queries import Aggregation, MetricQueries, Query, Series
from shared.metrics.rollups import data_of
from shared.metrics.series import SCRAPED_DEVICES, Label
from shared.metrics.serving import GpuCollector
from shared.metrics.snapshot import Gpu, Snapshot, User
from shared.metrics.steps import Slots
from shared.metrics.vocabulary import Measure
from shared.metrics.windows import Statistic, Wanted
from tests.conftest import REGION
from tests.real.prometheus import prometheus, served_once_each, until_known
from tests.unit.metrics.history import BY_DEVICE, DEFAULT_ROLLUPS

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

MINUTES = 40
TOGETHER = 10
"""Our scrapes in one of Prometheus', which takes a tenth of a second."""
ROLLUPS = (*DEFAULT_ROLLUPS, BY_DEVICE)
REGIONS = ("us-east-1", "us-west-2")
UTIL, USED, POWER = Measure.UTILIZATION, Measure.VRAM_USED, Measure.POWER
ODD = 'a "job" \\ with\ttabs'.replace("\t", " ")


class At:
    """A clock that stands."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment


def gpu(node: str, index: int, values: dict[Measure, float], job: str | None = None, vendor: Vendor = Vendor.NVIDIA) -> Gpu:
    user = None if job is None else User(namespace="gco-jobs", pod=f"{job[:1]}-0", job_id=job, project="vision" if job != "j3" else None)
    return Gpu(
        device=Device(vendor=vendor, node=node, index=str(index), uuid=f"GPU-{node}-{index}", model="H100"), values=values, user=user
    )


def history(begin: datetime) -> list[Snapshot]:
    """Idle devices, one that changes its job, a node that goes, scrapes that fail, a region that is scraped once or thrice a minute."""
    found = []
    for minute in range(MINUTES):
        at = begin + timedelta(minutes=minute, seconds=7)
        east = [
            gpu("n1", 0, {UTIL: 10.0 + minute, USED: 1000.0 + minute, POWER: 300.5}, "j1" if minute % 20 < 10 else ODD),
            gpu("n1", 1, {UTIL: 90.0 - minute / 2, USED: 2000.0}, "j1"),
            gpu("n1", 2, {UTIL: 0.0}),
            *([gpu("n2", 0, {UTIL: 55.5, USED: 8000.0}, "j2")] if minute < MINUTES // 2 else []),
        ]
        if minute % 7 != 3:
            found.append(Snapshot(region="us-east-1", at=at, seconds=0.1, gpus=tuple(east)))
        for second in (0, 20, 40) if minute % 2 else (20,):
            west = gpu("n3", 0, {UTIL: 33.25 + minute % 3, USED: 500.0}, "j3", Vendor.AMD)
            time = begin + timedelta(minutes=minute, seconds=second)
            found.append(Snapshot(region="us-west-2", at=time, seconds=0.1, gpus=(west,)))
    return sorted(found, key=lambda one: one.at)


def exposition(snapshot: Snapshot) -> str:
    """What our endpoint serves of a scrape, each sample at the time of the scrape, so that forty minutes pass in some seconds."""
    collector = GpuCollector(seconds=60, clock=At(snapshot.at))
    collector.put(snapshot)
    registry = CollectorRegistry()
    registry.register(collector)
    stamp = int(snapshot.at.timestamp() * 1000)
    lines = generate_latest(registry).decode().splitlines()
    return "".join(f"{line}\n" if line.startswith("#") else f"{line} {stamp}\n" for line in lines)


@pytest.fixture(scope="module")
def begin() -> datetime:
    """Not at the beginning of an hour or of five minutes, as most questions aren't."""
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=MINUTES + 2)


@pytest.fixture
async def both(aws_environment: str, begin: datetime, tmp_path: Path) -> AsyncIterator[tuple[MetricQueries, MetricQueries, str]]:
    """CloudWatch, Prometheus and its address, with one history."""
    snapshots = history(begin)
    texts = ["".join(map(exposition, snapshots[first : first + TOGETHER])) for first in range(0, len(snapshots), TOGETHER)]
    async with (
        connect(REGION, "cloudwatch") as aws,
        served_once_each(texts) as port,
        prometheus(tmp_path, scrapes=port) as url,
        prometheus_queries(url) as scraped,
    ):
        writer = MetricWriter(aws.cloudwatch)
        for snapshot in snapshots:
            assert (await writer.write(data_of(snapshot, ROLLUPS))).lost == 0
        await until_known(url, f"sum(count_over_time({SCRAPED_DEVICES}[2h]))", len(snapshots))
        yield cloudwatch_queries(aws.cloudwatch, regions=REGIONS, rollups=ROLLUPS), scraped, url


def shape(answer: list[Series]) -> list[tuple[dict[Label, str], list[tuple[datetime, object]]]]:
    return [(dict(one.labels), [(time, None if value is None else pytest.approx(value)) for time, value in one.points]) for one in answer]


def plain(answer: list[Series]) -> list[tuple[dict[Label, str], list[tuple[datetime, float | None]]]]:
    return [(dict(one.labels), [tuple(point) for point in one.points]) for one in answer]


BYS: tuple[tuple[Label, ...], ...] = (
    (),
    (Label.REGION,),
    (Label.NODE,),
    (Label.DEVICE,),
    (Label.PROJECT,),
    (Label.NAMESPACE,),
    (Label.JOB,),
    (Label.JOB, Label.REGION),
)
FILTERS: tuple[dict[Label, str], ...] = ({}, {Label.REGION: "us-east-1"}, {Label.JOB: ODD}, {Label.NODE: "n1"}, {Label.NODE: "n9"})


async def test_both_give_the_same_answers(both, begin):
    cloudwatch, scraped, _ = both
    asked = answered = refused = 0
    end = begin + timedelta(minutes=MINUTES + 1)
    for by, aggregation, filters in itertools.product(BYS, Aggregation, FILTERS):
        for measure, (start, step) in ((UTIL, (begin, None)), (USED, (begin + timedelta(minutes=3, seconds=33), 300))):
            query = Query(measure=measure, aggregation=aggregation, by=by, filters=filters)
            try:
                of_cloudwatch = await cloudwatch.range(query, start, end, step)
            except InvalidError:  # it has no such rollup, and says so
                refused += 1
                continue
            of_prometheus = await scraped.range(query, start, end, step)
            assert plain(of_cloudwatch) == shape(of_prometheus), (query, step)
            asked += 1
            answered += bool(of_cloudwatch)
    assert (asked, answered, refused) == (232, 200, 88)


async def test_other_steps_and_instants(both, begin):
    cloudwatch, scraped, _ = both
    end = begin + timedelta(minutes=MINUTES + 1)
    for step in (60, 120, 420, 1800, 3600):
        query = Query(measure=UTIL, aggregation=Aggregation.SUM, by=(Label.REGION,))
        span = (begin + timedelta(seconds=59), end, step)
        assert plain(await cloudwatch.range(query, *span)) == shape(await scraped.range(query, *span)), step
    for minute in (2, 17, 39):
        at = begin + timedelta(minutes=minute, seconds=50)
        for aggregation in Aggregation:
            query = Query(measure=USED, aggregation=aggregation, by=(Label.NODE,))
            of_cloudwatch = await cloudwatch.instant(query, at)
            assert of_cloudwatch
            assert plain(of_cloudwatch) == shape(await scraped.instant(query, at)), (aggregation, minute)
    ended = Query(measure=USED, by=(Label.JOB,), filters={Label.JOB: "j2"})
    for queries in (cloudwatch, scraped):  # its node goes after minute 19
        (then,) = await queries.instant(ended, begin + timedelta(minutes=20, seconds=50))
        assert then.points == [(begin + timedelta(minutes=20), 8000.0)]
        assert await queries.instant(ended, begin + timedelta(minutes=21, seconds=50)) == []


async def test_the_figures_are_right(both, begin):
    """Not only alike: one window of each kind by hand."""
    for queries in both[:2]:
        at = begin + timedelta(minutes=2)  # the window of minute 1: 11, 89.5, 0, 55.5 in the east; 34.25 three times in the west
        for aggregation, east, everywhere in (
            (Aggregation.AVG, 39.0, (156.0 + 3 * 34.25) / 7),
            (Aggregation.MAX, 89.5, 89.5),
            (Aggregation.SUM, 156.0, 156.0 + 34.25),
            (Aggregation.COUNT, 4.0, 5.0),
        ):
            for filters, value in (({Label.REGION: "us-east-1"}, east), ({}, everywhere)):
                query = Query(measure=UTIL, aggregation=aggregation, filters=filters)
                (series,) = await queries.range(query, at, at + timedelta(seconds=59), 60)
                assert [point.value for point in series.points] == [pytest.approx(value)], (queries, aggregation)


async def test_what_prometheus_refuses_is_told_in_its_words(both, begin):
    async with httpx.AsyncClient(base_url=both[2], trust_env=False) as client:
        wanted = Wanted(name="gpu {broken", statistic=Statistic.SUM, by=(Label.REGION,))
        slots = Slots(start=begin, end=begin + timedelta(hours=1), step=60)
        with pytest.raises(UnavailableError, match=r"Prometheus: bad_data: .*parse error"):
            await PrometheusWindows(client).read([wanted], slots)


async def test_nobody_answers():
    async with prometheus_queries("http://127.0.0.1:9") as queries:
        now = SystemClock().now()
        with pytest.raises(UnavailableError, match="Prometheus: "):
            await queries.range(Query(measure=UTIL), now - timedelta(hours=1), now)

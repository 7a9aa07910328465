"""From a snapshot to CloudWatch's data, and what they cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from shared.errors import InvalidError
from shared.metrics.cloudwatch_writing import MOST_BYTES, MetricWriter, batches
from shared.metrics.devices import Device, Vendor
from shared.metrics.plan import plan, price_of
from shared.metrics.rollups import data_of, measures_of, rollups_of
from shared.metrics.snapshot import ExporterState, Gpu, Snapshot, User, decode, encode, units
from shared.metrics.vocabulary import Measure
from shared.settings import Settings
from tests.unit.metrics.history import DEFAULT_ROLLUPS

AT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)
ALL = frozenset(Measure)


def gpu(node: str, index: int, utilization: float, *, user: User | None = None, partition: str | None = None) -> Gpu:
    device = Device(
        vendor=Vendor.AMD, node=node, index=str(index), uuid=f"{node}-{index}", model=None, partition=partition, profile=partition and "cpx"
    )
    return Gpu(device=device, values={Measure.UTILIZATION: utilization, Measure.POWER: 100.5}, user=user)


TRAIN = User(namespace="a", pod="p", job_id="j1", execution=1, project="gold")
SERVE = User(namespace="a", pod="q")
SNAPSHOT = Snapshot(
    region="r1",
    at=AT,
    seconds=0.25,
    gpus=(gpu("n1", 0, 90, user=TRAIN), gpu("n1", 1, 70, user=TRAIN), gpu("n2", 0, 50, user=SERVE), gpu("n2", 1, 0)),
    exporters=(
        ExporterState(namespace="x", pod="e1", node="n1", seconds=0.1, gpus=2),
        ExporterState(namespace="x", pod="e2", node="n3", seconds=10.0, error="no whole answer within 10 s"),
    ),
)


def named(data, name: str):
    return {
        tuple((one["Name"], one["Value"]) for one in datum["Dimensions"]): datum.get("StatisticValues", datum.get("Value"))
        for datum in data
        if datum["MetricName"] == name
    }


def test_each_group_has_one_statistic_set_of_its_devices():
    found = named(data_of(SNAPSHOT, DEFAULT_ROLLUPS), "gpu_utilization")

    assert found == {
        (("region", "r1"),): {"SampleCount": 4, "Sum": 210, "Minimum": 0, "Maximum": 90},
        (("node", "n1"), ("region", "r1")): {"SampleCount": 2, "Sum": 160, "Minimum": 70, "Maximum": 90},
        (("node", "n2"), ("region", "r1")): {"SampleCount": 2, "Sum": 50, "Minimum": 0, "Maximum": 50},
        (("namespace", "a"), ("region", "r1")): {"SampleCount": 3, "Sum": 210, "Minimum": 50, "Maximum": 90},
        (("project", "gold"), ("region", "r1")): {"SampleCount": 2, "Sum": 160, "Minimum": 70, "Maximum": 90},
        (("job_id", "j1"), ("namespace", "a"), ("region", "r1")): {"SampleCount": 2, "Sum": 160, "Minimum": 70, "Maximum": 90},
    }


def test_data_have_the_time_of_the_scrape_and_units_that_cloudwatch_knows():
    data = data_of(SNAPSHOT, DEFAULT_ROLLUPS)

    assert {datum["Timestamp"] for datum in data} == {AT}
    units_of = {datum["MetricName"]: datum["Unit"] for datum in data}
    assert (units_of["gpu_utilization"], units_of["gpu_power"], units_of["gpu_devices"]) == ("Percent", "None", "Count")


def test_a_region_says_how_many_devices_and_exporters_it_has_though_there_are_none():
    empty = replace(SNAPSHOT, gpus=(), exporters=())

    assert named(data_of(SNAPSHOT, DEFAULT_ROLLUPS), "gpu_exporter_failures") == {(("region", "r1"),): 1}
    assert [(datum["MetricName"], datum["Value"]) for datum in data_of(empty, DEFAULT_ROLLUPS)] == [
        ("gpu_devices", 0),
        ("gpu_exporters", 0),
        ("gpu_exporter_failures", 0),
    ]


def test_only_chosen_measures_and_rollups_are_written():
    data = data_of(SNAPSHOT, rollups_of(["region+node+device"]), measures_of(["gpu_power"]))

    assert {datum["MetricName"] for datum in data[:-3]} == {"gpu_power"}
    assert len(data) == 4 + 3
    assert data_of(SNAPSHOT, ()) == []


@pytest.mark.parametrize("project", ["", " ", ":gold", "gölden", "go\nld", "x" * 1025])
def test_a_label_that_cloudwatch_would_refuse_is_left_out(project):
    snapshot = replace(SNAPSHOT, gpus=(gpu("n1", 0, 90, user=replace(TRAIN, project=project)),))

    dimensions = {one["Name"] for datum in data_of(snapshot, DEFAULT_ROLLUPS) for one in datum["Dimensions"]}

    assert dimensions == {"region", "node", "namespace", "job_id"}


def test_the_settings_rollups_are_those_that_are_read():
    assert set(rollups_of(Settings().metrics_rollups)) == set(DEFAULT_ROLLUPS)


def test_a_word_that_is_no_measure_is_refused():
    with pytest.raises(InvalidError, match=r"GPUFLEET_METRICS_MEASURES: .*gpu_utilization"):
        measures_of(["gpu_power", "temperature"])
    assert measures_of([]) == ALL


def datum(size: int = 1) -> dict:
    return {"MetricName": "gpu_power", "Dimensions": [{"Name": "region", "Value": "r" * size}], "Timestamp": AT, "Value": 1.0}


def test_batches_are_full_by_number_and_by_bytes():
    assert [len(part) for part in batches([datum()] * 2500)] == [1000, 1000, 500]
    large = [datum(10_000)] * 200
    parts = list(batches(large))
    assert sum(len(part) for part in parts) == 200
    assert all(len(part) * 10_000 < MOST_BYTES for part in parts)
    assert len(parts) == 3
    assert list(batches([])) == []


class Refusing:
    """A CloudWatch that refuses one batch, as it does when a datum in it is none."""

    def __init__(self) -> None:
        self.taken = 0

    async def put_metric_data(self, *, Namespace, MetricData):  # noqa: N803 # AWS's own names
        if MetricData[0]["Value"] == 2.0:
            raise OSError("the connection was lost")
        self.taken += len(MetricData)


async def test_a_batch_that_fails_takes_no_other_with_it():
    client = Refusing()
    data = [datum() | {"Value": float(number // 1000 + 1)} for number in range(3000)]

    written = await MetricWriter(client).write(data)

    assert (written.requests, written.lost, client.taken) == (3, 1000, 2000)
    assert "connection was lost" in written.error


@pytest.mark.parametrize(
    ("metrics", "usd"),
    [(0, "0"), (1, "0.30"), (10_000, "3000"), (10_001, "3000.10"), (250_000, "27000"), (1_000_000, "64500"), (1_000_001, "64500.02")],
)
def test_prices_go_by_tiers(metrics, usd):
    assert price_of(metrics) == Decimal(usd)


def test_a_plan_counts_what_would_be_written():
    planned = plan([SNAPSHOT], DEFAULT_ROLLUPS, ALL, seconds=60)

    assert planned.metrics == len(data_of(SNAPSHOT, DEFAULT_ROLLUPS))
    assert [(line.groups, line.metrics) for line in planned.lines] == [(1, 2), (2, 4), (1, 2), (1, 2), (1, 2), (1, 3)]
    assert planned.requests == 730 * 60
    assert planned.total_usd == Decimal("0.30") * 15 + Decimal("0.44")
    assert plan([SNAPSHOT], (), ALL, seconds=60).metrics == 0


def test_a_snapshot_is_read_as_it_was_written():
    assert decode(encode(SNAPSHOT)) == SNAPSHOT
    for broken in (b"", b"{}", encode(SNAPSHOT)[:40]):
        with pytest.raises(ValueError, match="snapshot"):
            decode(broken)


def test_partitions_stand_for_the_device_that_they_are_parts_of():
    parts = [gpu("n1", 0, 10, partition="0"), gpu("n1", 0, 20, partition="1")]
    whole, other = gpu("n1", 0, 0), gpu("n1", 1, 0)

    assert units([whole, *parts, other]) == [*parts, other]

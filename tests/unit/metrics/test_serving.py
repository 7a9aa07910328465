"""What Prometheus is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from shared.metrics.serving import GpuCollector
from tests.unit.metrics.test_rollups import SNAPSHOT


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time = SNAPSHOT.at

    def now(self) -> datetime:
        return self.time


class Served:
    def __init__(self) -> None:
        self.clock = Hand()
        self.collector = GpuCollector(seconds=60, clock=self.clock)
        self._registry = CollectorRegistry()
        self._registry.register(self.collector)

    def samples(self, name: str) -> list[tuple[dict[str, str], float]]:
        text = generate_latest(self._registry).decode()
        return [(one.labels, one.value) for family in text_string_to_metric_families(text) for one in family.samples if one.name == name]


def test_a_device_has_the_labels_of_whoever_holds_it():
    served = Served()
    served.collector.put(SNAPSHOT)

    first, _, other, idle = served.samples("gpu_utilization")

    assert first == (
        {
            "region": "r1",
            "node": "n1",
            "device": "n1-0",
            "vendor": "amd",
            "gpu": "0",
            "uuid": "n1-0",
            "namespace": "a",
            "project": "gold",
            "job_id": "j1",
            "execution": "1",
            "pod": "p",
        },
        90,
    )
    assert "job_id" not in other[0]
    assert "namespace" not in idle[0]
    assert served.samples("gpu_devices") == [({"region": "r1"}, 4)]


def test_what_the_newest_scrape_has_not_is_gone_and_the_other_region_stays():
    served = Served()
    served.collector.put(SNAPSHOT)
    served.collector.put(replace(SNAPSHOT, region="r2"))

    served.collector.put(replace(SNAPSHOT, gpus=SNAPSHOT.gpus[:1]))

    assert [labels["region"] for labels, _ in served.samples("gpu_power")].count("r1") == 1
    assert [labels["region"] for labels, _ in served.samples("gpu_power")].count("r2") == 4


def test_what_is_old_is_not_told_as_if_it_were_now_but_how_old_it_is():
    served = Served()
    served.collector.put(SNAPSHOT)

    served.clock.time += timedelta(seconds=179)
    assert served.samples("gpu_power")
    served.clock.time += timedelta(seconds=2)

    assert served.samples("gpu_power") == []
    assert served.samples("gpu_devices") == []
    assert served.samples("gpu_scrape_age_seconds") == [({"region": "r1"}, 181)]


def test_exporters_say_whether_they_answered_and_how_long_ago():
    served = Served()
    served.collector.put(SNAPSHOT)
    served.clock.time += timedelta(seconds=60)
    failed = tuple(replace(one, error="no") for one in SNAPSHOT.exporters)
    served.collector.put(replace(SNAPSHOT, at=served.clock.time, exporters=failed))

    assert [value for _, value in served.samples("gpu_exporter_up")] == [0, 0]
    ages = served.samples("gpu_exporter_age_seconds")
    assert [(labels["node"], value) for labels, value in ages] == [("n1", 60)]  # the other never answered
    assert served.samples("gpu_exporter_failed_scrapes_total") == [({"region": "r1"}, 3)]


def test_nothing_is_told_before_the_first_scrape():
    assert Served().samples("gpu_scrape_age_seconds") == []
    assert SNAPSHOT.age(datetime(2000, 1, 1, tzinfo=UTC)) == 0

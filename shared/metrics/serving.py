"""GPUs as Prometheus reads them: the newest snapshot of each region, by prometheus-client's own text format.

Samples have no time of their own, so that a series which is not there any more ends with the next scrape of Prometheus. What is older than
a few intervals isn't served: `gpu_scrape_age_seconds` still says how old it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.clock import Clock
from shared.metrics.rollups import EXPORTER_FAILURES, EXPORTERS
from shared.metrics.series import SCRAPED_DEVICES, Label, device_name
from shared.metrics.snapshot import STALE_AFTER, Failures, Gpu, Snapshot
from shared.metrics.vocabulary import UNITS, Measure

_TEXTS: Final = {measure: f"{measure.value.removeprefix('gpu_').replace('_', ' ')} of a GPU, in {UNITS[measure]}" for measure in Measure}


class GpuCollector(Collector):
    """Gives what was put last. `seconds` is the interval of scrapes. It may be asked from any thread."""

    def __init__(self, *, seconds: float, clock: Clock) -> None:
        self._stale = seconds * STALE_AFTER
        self._clock = clock
        self._snapshots: dict[str, Snapshot] = {}
        self._failures: dict[str, Failures] = {}

    def put(self, snapshot: Snapshot) -> None:
        """A scrape has ended."""
        self._failures.setdefault(snapshot.region, Failures()).note(snapshot)
        # A new dictionary, since another thread may be reading the old one.
        self._snapshots = {**self._snapshots, snapshot.region: snapshot}

    def describe(self) -> list[Metric]:
        """Nothing: what is registered need not be collected for it first."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All series."""
        now = self._clock.now()
        snapshots = list(self._snapshots.values())
        fresh = [one for one in snapshots if one.age(now) <= self._stale]
        yield from _devices(fresh)
        yield from _scrapes(snapshots, fresh, {one.region: one.age(now) for one in snapshots})
        yield from self._exporters(fresh)

    def _exporters(self, fresh: list[Snapshot]) -> Iterator[Metric]:
        now = self._clock.now()
        up = GaugeMetricFamily("gpu_exporter_up", "whether an exporter answered with GPUs at the last scrape", labels=_OF_EXPORTER)
        age = GaugeMetricFamily("gpu_exporter_age_seconds", "since an exporter last answered with GPUs", labels=_OF_EXPORTER)
        failed = CounterMetricFamily("gpu_exporter_failed_scrapes", "exporters that could not be read", labels=["region"])
        for region, failures in list(self._failures.items()):
            failed.add_metric([region], failures.total)
        for snapshot in fresh:
            answered = self._failures[snapshot.region].answered_at
            for one in snapshot.exporters:
                labels = [snapshot.region, one.node, one.namespace, one.pod]
                up.add_metric(labels, float(one.error is None))
                if one.place in answered:
                    age.add_metric(labels, (now - answered[one.place]).total_seconds())
        yield from (up, age, failed)


_OF_EXPORTER: Final = ["region", "node", "namespace", "pod"]


def _devices(snapshots: list[Snapshot]) -> Iterator[Metric]:
    families = {measure: Metric(measure.value, text, "gauge") for measure, text in _TEXTS.items()}
    for snapshot in snapshots:
        for gpu in snapshot.gpus:
            labels = series_labels(gpu, snapshot.region)
            for measure, value in gpu.values.items():
                families[measure].add_sample(measure.value, labels, value)
    yield from families.values()


def _scrapes(snapshots: list[Snapshot], fresh: list[Snapshot], ages: dict[str, float]) -> Iterator[Metric]:
    age = GaugeMetricFamily("gpu_scrape_age_seconds", "since the GPUs of a region were last read", labels=["region"])
    took = GaugeMetricFamily("gpu_scrape_seconds", "how long the last scrape of a region took", labels=["region"])
    devices = GaugeMetricFamily(SCRAPED_DEVICES, "devices that the last scrape found", labels=["region"])
    exporters = GaugeMetricFamily(EXPORTERS, "exporters of the last scrape", labels=["region"])
    failures = GaugeMetricFamily(EXPORTER_FAILURES, "exporters that the last scrape could not read", labels=["region"])
    for one in snapshots:
        age.add_metric([one.region], ages[one.region])
        took.add_metric([one.region], one.seconds)
    for one in fresh:
        devices.add_metric([one.region], len(one.gpus))
        exporters.add_metric([one.region], len(one.exporters))
        failures.add_metric([one.region], one.failures)
    yield from (age, took, devices, exporters, failures)


def series_labels(gpu: Gpu, region: str) -> dict[str, str]:
    """The labels of a device's series: those of `shared.metrics.series`, and what else tells people which it is. None is empty."""
    device, user = gpu.device, gpu.user
    labels = {
        Label.REGION.value: region,
        Label.NODE.value: device.node,
        Label.DEVICE.value: device_name(device),
        Label.VENDOR.value: str(device.vendor),
        "gpu": device.index,
        "uuid": device.uuid,
        "model": device.model,
        "partition": device.partition,
        "profile": device.profile,
    }
    if user is not None:
        labels |= {
            Label.NAMESPACE.value: user.namespace,
            Label.PROJECT.value: user.project,
            Label.JOB.value: user.job_id,
            "execution": None if user.execution is None else str(user.execution),
            "job_name": user.job_name,
            "pod": user.pod,
            "container": user.container,
        }
    return {name: value for name, value in labels.items() if value}

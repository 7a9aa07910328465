"""From a snapshot to the metrics of CloudWatch: for each rollup, group and measure one statistic set of its devices.

Which names, labels and rollups there are stands in `shared.metrics.series`. A statistic set keeps number, sum, least and greatest: what a
reader can put together again over any time and any groups, in one datum however many devices there are. It has no percentiles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from shared.errors import InvalidError, Problem
from shared.metrics.series import SCRAPED_DEVICES, Label, Rollup, device_name
from shared.metrics.snapshot import Gpu, Snapshot
from shared.metrics.vocabulary import UNITS, Measure

EXPORTERS: Final = "gpu_exporters"
EXPORTER_FAILURES: Final = "gpu_exporter_failures"
"""By region: how many exporters there are, and how many of them could not be read."""

LONGEST_DIMENSION: Final = 1024

_UNITS: Final = {"percent": "Percent", "count": "Count", "Mb/s": "Megabits/Second"}
"""CloudWatch's own names. It has none of watts, degrees and hertz, and takes a megabyte for whatever its reader does."""


@dataclass(slots=True)
class Statistics:
    """A statistic set."""

    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")

    def add(self, value: float) -> None:
        """One more value."""
        self.count += 1
        self.total += value
        if value < self.least:
            self.least = value
        if value > self.most:
            self.most = value


def rollups_of(texts: Iterable[str]) -> tuple[Rollup, ...]:
    """The rollups of a setting, such as `region+node`."""
    return tuple(dict.fromkeys(frozenset(Label(part) for part in text.split("+")) for text in texts))


def measures_of(texts: Sequence[str], *, field: str = "GPUFLEET_METRICS_MEASURES") -> frozenset[Measure]:
    """The measures of a setting; all where it has none. Raises InvalidError for a word that is no measure."""
    known = {measure.value: measure for measure in Measure}
    problems = [Problem(pointer=field, value=text, rule=f"must be some of {', '.join(known)}") for text in texts if text not in known]
    if problems:
        raise InvalidError(problems)
    return frozenset(known[text] for text in texts) or frozenset(Measure)


def data_of(snapshot: Snapshot, rollups: Sequence[Rollup], measures: Collection[Measure] = frozenset(Measure)) -> list[dict[str, Any]]:
    """The data of PutMetricData, with the time of the scrape. A scrape that found no device says so: `gpu_devices` is 0."""
    if not rollups:
        return []
    orders = [tuple(sorted(rollup)) for rollup in rollups]
    groups: dict[tuple[tuple[Label, ...], tuple[str, ...]], dict[Measure, Statistics]] = defaultdict(lambda: defaultdict(Statistics))
    for gpu in snapshot.gpus:
        labels = {label: value for label, value in labels_of(gpu, snapshot.region).items() if _is_dimension(value)}
        values = [(measure, value) for measure, value in gpu.values.items() if measure in measures]
        for order in orders:
            if all(label in labels for label in order):
                sets = groups[order, tuple(labels[label] for label in order)]
                for measure, value in values:
                    sets[measure].add(value)
    data = []
    for (order, group), sets in groups.items():
        dimensions = [{"Name": label.value, "Value": value} for label, value in zip(order, group, strict=True)]
        data += [_set(measure, dimensions, one, snapshot.at) for measure, one in sets.items()]
    return [*data, *(_single(name, snapshot, value) for name, value in _of_region(snapshot).items())]


def labels_of(gpu: Gpu, region: str) -> Mapping[Label, str]:
    """The labels that a device has now."""
    device, user = gpu.device, gpu.user
    labels = {Label.REGION: region, Label.NODE: device.node, Label.DEVICE: device_name(device), Label.VENDOR: str(device.vendor)}
    if user is not None:
        labels[Label.NAMESPACE] = user.namespace
        if user.project:
            labels[Label.PROJECT] = user.project
        if user.job_id:
            labels[Label.JOB] = user.job_id
    return labels


def _is_dimension(value: str) -> bool:
    """Whether CloudWatch takes it: one that it doesn't would take its whole batch with it. Some labels are an exporter's to write."""
    return (
        value.isascii() and value.isprintable() and not value.isspace() and value[:1] not in ("", ":") and len(value) <= LONGEST_DIMENSION
    )


def _of_region(snapshot: Snapshot) -> dict[str, int]:
    return {SCRAPED_DEVICES: len(snapshot.gpus), EXPORTERS: len(snapshot.exporters), EXPORTER_FAILURES: snapshot.failures}


REGIONAL: Final = 3
"""Metrics that each region has beside those of its rollups."""


def _set(measure: Measure, dimensions: Sequence[Mapping[str, str]], one: Statistics, at: datetime) -> dict[str, Any]:
    return {
        "MetricName": measure.value,
        "Dimensions": dimensions,
        "Timestamp": at,
        "StatisticValues": {"SampleCount": float(one.count), "Sum": one.total, "Minimum": one.least, "Maximum": one.most},
        "Unit": _UNITS.get(UNITS[measure], "None"),
    }


def _single(name: str, snapshot: Snapshot, value: int) -> dict[str, Any]:
    dimensions = [{"Name": Label.REGION.value, "Value": snapshot.region}]
    return {"MetricName": name, "Dimensions": dimensions, "Timestamp": snapshot.at, "Value": float(value), "Unit": "Count"}

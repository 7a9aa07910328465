"""A short history of some GPUs, told to whoever keeps samples: every device's samples, or what a rollup makes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.metrics.series import DEVICES_NAMESPACE, SCRAPED_DEVICES, Label, Rollup
from shared.metrics.steps import Slots
from shared.metrics.vocabulary import Measure
from shared.metrics.windows import Group, Statistic, Values, Wanted, last_minute

UTIL, USED = Measure.UTILIZATION, Measure.VRAM_USED
BY_DEVICE: Rollup = frozenset({Label.REGION, Label.NODE, Label.DEVICE})
DEFAULT_ROLLUPS: tuple[Rollup, ...] = (
    frozenset({Label.REGION}),
    frozenset({Label.REGION, Label.NODE}),
    frozenset({Label.REGION, Label.NAMESPACE}),
    frozenset({Label.REGION, Label.PROJECT}),
    frozenset({Label.REGION, Label.NAMESPACE, Label.JOB}),
)
"""Those of the settings' default."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a scrape found: a device with its labels, or (`scraped`) that the region was scraped."""

    time: datetime
    labels: Mapping[Label, str]
    values: Mapping[str, float]


def device(time: datetime, region: str, node: str, name: str, values: Mapping[str, float], *, job: str | None = None) -> Sample:
    labels = {Label.REGION: region, Label.NODE: node, Label.DEVICE: name, Label.VENDOR: "nvidia"}
    if job is not None:
        labels |= {Label.NAMESPACE: "gco-jobs", Label.PROJECT: "vision", Label.JOB: job}
    return Sample(time=time, labels=labels, values=values)


def scraped(time: datetime, region: str, devices: int) -> Sample:
    return Sample(time=time, labels={Label.REGION: region}, values={SCRAPED_DEVICES: devices})


def story(begin: datetime, minutes: int) -> list[Sample]:
    """Two regions, one scrape a minute at its 7th second: idle devices, one that changes its job, a node that goes, a scrape that fails."""
    found: list[Sample] = []
    for minute in range(minutes):
        time = begin + timedelta(minutes=minute, seconds=7)
        east = [
            device(time, "us-east-1", "n1", "GPU-a", {UTIL: 10.0 + minute, USED: 1000.0}, job="j1" if minute % 20 < 10 else 'odd "\\ job'),
            device(time, "us-east-1", "n1", "GPU-b", {UTIL: 90.0 - minute / 2, USED: 2000.0}, job="j1"),
            device(time, "us-east-1", "n1", "GPU-c", {UTIL: 0.0}),
        ]
        if minute < minutes // 2:
            east.append(device(time, "us-east-1", "n2", "GPU-d", {UTIL: 55.5, USED: 8000.0}, job="j2"))
        if minute % 7 != 3:  # else the scrape fails
            found += [*east, scraped(time, "us-east-1", len(east))]
        west = [device(time, "us-west-2", "n3", "GPU-e", {UTIL: 33.25 + minute % 3}, job="j3")]
        found += [*west, scraped(time, "us-west-2", len(west))]
    return found


class Memory:
    """`Windows` in their plainest form: every sample is looked at for every window."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._samples = samples

    async def read(self, wanted: Sequence[Wanted], slots: Slots) -> list[Values]:
        return [self._one(one, slots) for one in wanted]

    def _one(self, wanted: Wanted, slots: Slots) -> Values:
        found: dict[Group, list[list[float]]] = defaultdict(lambda: [[] for _ in range(len(slots))])
        for sample in self._samples:
            if wanted.name in sample.values and {*wanted.by} <= {*sample.labels} and wanted.filters.items() <= sample.labels.items():
                for index, slot in enumerate(slots.times):
                    end = datetime.fromtimestamp(last_minute(slot), UTC)
                    if end - timedelta(seconds=slots.lookback) <= sample.time < end:
                        found[tuple(sample.labels[label] for label in wanted.by)][index].append(sample.values[wanted.name])
        make = {Statistic.COUNT: len, Statistic.SUM: sum, Statistic.MAX: max}[wanted.statistic]
        return {group: [make(values) if values else None for values in windows] for group, windows in found.items()}


def statistic_sets(samples: Sequence[Sample], rollups: Sequence[Rollup]) -> list[dict]:
    """The MetricData of every scrape: one statistic set for each rollup's labels and measure."""
    sets: dict[tuple, list[float]] = defaultdict(list)
    for sample in samples:
        for name, value in sample.values.items():
            for rollup in rollups if name != SCRAPED_DEVICES else [frozenset({Label.REGION})]:
                if rollup <= sample.labels.keys():
                    dimensions = tuple((label.value, sample.labels[label]) for label in sorted(rollup))
                    sets[(sample.time, name, dimensions)].append(value)
    return [
        {
            "MetricName": str(name),
            "Timestamp": time,
            "Dimensions": [{"Name": label, "Value": value} for label, value in dimensions],
            "StatisticValues": {"SampleCount": len(values), "Sum": sum(values), "Minimum": min(values), "Maximum": max(values)},
        }
        for (time, name, dimensions), values in sets.items()
    ]


async def put(client, samples: Sequence[Sample], rollups: Sequence[Rollup]) -> None:
    data = statistic_sets(samples, rollups)
    for first in range(0, len(data), 500):
        await client.put_metric_data(Namespace=DEVICES_NAMESPACE, MetricData=data[first : first + 500])

"""The forms in which figures are told: Prometheus' families, the data of PutMetricData, CloudWatch's embedded metric format.

Each distinct set of labels of a name is a metric of CloudWatch, which takes money for it by the hour in which it is written. So CloudWatch
is told the less: no states, dead letters of all queues together, and nothing that is zero, but that the health was read. Alarms there take
what is missing as good, and the one on `fleet_health_unread` takes it as bad. To Prometheus, where a series costs nothing, all is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from shared.health.figures import TEXTS, Figure
from shared.metrics.series import FLEET_NAMESPACE

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_BY_STATE: Final = "state"
_ILL: Final = "fleet_loops_unwell"
_DEAD: Final = "fleet_dead_letters"
_UNPAID: Final = frozenset({"fleet_loop_pass_age_seconds"})
"""What a loop that isn't well tells better."""
HEARTBEAT: Final = "fleet_health_unread"
"""Told with every snapshot, by which one knows that there was one."""
_MOST_METRICS: Final = 100
"""Of one document: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html"""


def families(figures: Iterable[Figure]) -> Iterator[Metric]:
    """The gauges of prometheus-client."""
    from prometheus_client.core import Metric

    found: dict[str, Metric] = {}
    for figure in figures:
        family = found.setdefault(figure.name, Metric(figure.name, TEXTS[figure.name], "gauge"))
        family.add_sample(figure.name, dict(figure.labels), figure.value)
    yield from found.values()


def data(figures: Iterable[Figure], at: datetime) -> list[dict[str, Any]]:
    """The MetricData of PutMetricData."""
    return [
        {
            "MetricName": figure.name,
            "Dimensions": [{"Name": name, "Value": value} for name, value in sorted(figure.labels.items())],
            "Timestamp": at,
            "Value": float(figure.value),
            "Unit": figure.unit,
        }
        for figure in _paid(figures)
    ]


def embedded(figures: Iterable[Figure], at: datetime) -> list[dict[str, Any]]:
    """One document for each set of labels; as a line of JSON in the log of a Lambda function, CloudWatch makes metrics of it."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, Figure]] = defaultdict(dict)
    for figure in _paid(figures):
        groups[tuple(sorted(figure.labels.items()))][figure.name] = figure
    return [_document(dict(labels), list(found.values()), at) for labels, found in groups.items()]


def _document(labels: Mapping[str, str], found: list[Figure], at: datetime) -> dict[str, Any]:
    assert len(found) <= _MOST_METRICS
    directive = {
        "Namespace": FLEET_NAMESPACE,
        "Dimensions": [sorted(labels)],
        "Metrics": [{"Name": figure.name, "Unit": figure.unit} for figure in found],
    }
    about = {"Timestamp": int(at.timestamp() * 1000), "CloudWatchMetrics": [directive]}
    return {"_aws": about, **labels, **{figure.name: float(figure.value) for figure in found}}


def _paid(figures: Iterable[Figure]) -> list[Figure]:
    """What CloudWatch is told."""
    found: list[Figure] = []
    unwell: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)
    dead = 0.0
    for figure in figures:
        if figure.name == _DEAD:
            dead += figure.value
        elif figure.name == "fleet_loops":
            labels = tuple((name, value) for name, value in figure.labels.items() if name != _BY_STATE)
            unwell[labels] += figure.value if figure.labels[_BY_STATE] != "well" else 0
        elif _BY_STATE not in figure.labels and figure.name not in _UNPAID:
            found.append(figure)
    found.append(Figure(name=_DEAD, value=dead))
    found += [Figure(name=_ILL, value=value, labels=dict(labels)) for labels, value in unwell.items()]
    return [figure for figure in found if figure.value or figure.name == HEARTBEAT]

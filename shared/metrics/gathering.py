"""Samples of many series, gathered by the device that they are about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.metrics.devices import Device, Holder
from shared.metrics.exposition import Exposition

Labels = Mapping[str, str]


@dataclass(slots=True)
class Gathered:
    """The samples of one device by series. A series that comes more than once (a clock of each type) is told apart by its labels."""

    labels: Labels
    """Of its first sample that names a pod, or else of its first."""
    series: dict[str, float] = field(default_factory=dict)

    def get(self, *names: str) -> float | None:
        """The value of the first of some series that there is."""
        return next((self.series[name] for name in names if name in self.series), None)


def gather(
    exposition: Exposition,
    device_of: Callable[[Labels], Device | None],
    *,
    told_apart_by: Mapping[str, str],
) -> dict[Device, Gathered]:
    """All devices with their samples. Of a series in `told_apart_by`, the value of that label is put to its name: `gpu_clock:system`."""
    found: dict[Device, Gathered] = {}
    known: dict[int, Gathered | None] = {}
    for name, samples in exposition.samples.items():
        apart = told_apart_by.get(name)
        for labels, value in samples:
            key = id(labels)  # one object for each block of labels, alive as long as the exposition
            if key not in known:
                known[key] = _at(found, device_of(labels), labels)
            gathered = known[key]
            if gathered is not None:
                gathered.series[f"{name}:{labels.get(apart, '').lower()}" if apart else name] = value
    return found


def _at(found: dict[Device, Gathered], device: Device | None, labels: Labels) -> Gathered | None:
    if device is None:
        return None
    gathered = found.setdefault(device, Gathered(labels))
    if not gathered.labels.get("pod") and labels.get("pod"):
        gathered.labels = labels
    return gathered


def holder_of(labels: Labels) -> Holder | None:
    """Who holds a device: `pod` and its like, or `exported_pod` where a Prometheus in between has kept `pod` for the exporter itself."""
    prefix = "exported_" if labels.get("exported_pod") else ""
    pod, namespace = labels.get(f"{prefix}pod"), labels.get(f"{prefix}namespace")
    if not pod or not namespace:
        return None
    return Holder(namespace=namespace, pod=pod, container=labels.get(f"{prefix}container") or None)

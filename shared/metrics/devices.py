"""A GPU, or the part of one that is held apart, and what was read of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from shared.metrics.vocabulary import Measure


class Vendor(StrEnum):
    """Who makes it."""

    NVIDIA = "nvidia"
    AMD = "amd"


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device, or one partition of it (MIG, CPX and the like), which is apart from its siblings in everything.

    `node` is the host's name as the exporter says it; of a joined device, the name of its node. `partition` is None for a whole device.
    """

    vendor: Vendor
    node: str
    index: str
    uuid: str | None
    model: str | None
    partition: str | None = None
    profile: str | None = None
    """The kind of partition, such as `1g.10gb` or `cpx`; a whole AMD device says its mode too (`spx`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """The container that a device was given to, as the exporter knows it."""

    namespace: str
    pod: str
    container: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What one scrape says of one device. A measure that has no value (unsupported, blank) is not in `values`.

    `labels` are the pod's labels as far as the exporter passes them on, by their own names.
    """

    device: Device
    values: Mapping[Measure, float]
    holder: Holder | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

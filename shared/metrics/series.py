"""How series of devices are named and labelled, alike in CloudWatch and in Prometheus: what is written, served and asked for agrees here.

The name of a series is its measure's (`shared.metrics.vocabulary`); a label of Prometheus is a dimension of CloudWatch, by the same name.
Prometheus has a series for each device. CloudWatch has what somebody pays for: for each *rollup* a statistic set of all the devices that
have the same labels of it, one for each scrape.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from shared.metrics.devices import Device

DEVICES_NAMESPACE: Final = "gpufleet/devices"
FLEET_NAMESPACE: Final = "gpufleet/fleet"
"""CloudWatch's namespaces: measures of devices, and the fleet's own health."""

SCRAPED_DEVICES: Final = "gpu_devices"
"""How many devices a scrape found, labelled by region alone, and there for every scrape that succeeded, even one that found none.
So in both, the number of its samples is the number of scrapes, by which a sum of samples becomes one over devices."""


class Label(StrEnum):
    """What a series is told apart by. Every device has the first four; the others only while somebody holds it."""

    REGION = "region"
    NODE = "node"
    DEVICE = "device"
    """`device_name`."""
    VENDOR = "vendor"
    NAMESPACE = "namespace"
    PROJECT = "project"
    JOB = "job_id"
    """Not `job`, which Prometheus itself puts on whatever it scrapes."""


EVERY_DEVICE_HAS: Final = frozenset({Label.REGION, Label.NODE, Label.DEVICE, Label.VENDOR})

Rollup = frozenset[Label]
"""Labels by which devices are taken together; one that lacks a label of it is not in it. Settings say which are written."""


def device_name(device: Device) -> str:
    """A device by one name that no other device of its cluster has: its UUID, or node and index; and the partition, where it is one."""
    name = device.uuid or f"{device.node}/{device.index}"
    return name if device.partition is None else f"{name}/{device.partition}"

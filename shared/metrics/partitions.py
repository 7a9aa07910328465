"""A device and its partitions told apart, so that whatever is added up over devices is counted once.

Activity and memory belong to the partitions; power, temperatures, clocks, the link and health to the device that they are parts of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from shared.metrics.devices import Reading
from shared.metrics.vocabulary import Measure

OF_PARTITIONS: Final = frozenset({Measure.UTILIZATION, Measure.MEMORY_ACTIVITY, Measure.VRAM_USED, Measure.VRAM_TOTAL})


def apart(readings: Iterable[Reading]) -> list[Reading]:
    """The readings, where a device has partitions with the device first; one that no series names is made of what its partitions say."""
    devices: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for reading in readings:
        devices[reading.device.node, reading.device.index].append(reading)
    found = []
    for group in devices.values():
        parts = [one for one in group if one.device.partition is not None]
        if parts:
            found += [_whole(group, parts), *(_own(part) for part in parts)]
        else:
            found += group
    return found


def _whole(group: list[Reading], parts: list[Reading]) -> Reading:
    device = replace(parts[0].device, partition=None, profile=None)
    told = next((one for one in group if one.device.partition is None), Reading(device=device, values={}))
    values = dict(told.values)
    for part in parts:
        values = {**part.values, **values}
    divided = {measure for part in parts for measure in part.values if measure in OF_PARTITIONS}
    return replace(told, values={measure: value for measure, value in values.items() if measure not in divided})


def _own(part: Reading) -> Reading:
    return replace(part, values={measure: value for measure, value in part.values.items() if measure in OF_PARTITIONS})

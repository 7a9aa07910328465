"""The measures of a GPU, whatever its make, each with one unit."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Measure(StrEnum):
    """What is measured of a device. Values are named as they are written to CloudWatch and served to Prometheus."""

    UTILIZATION = "gpu_utilization"
    """How busy its engines are."""
    MEMORY_ACTIVITY = "gpu_memory_activity"
    """How busy its memory's interface is; not how full the memory is."""
    VRAM_USED = "gpu_vram_used"
    VRAM_TOTAL = "gpu_vram_total"
    POWER = "gpu_power"
    JUNCTION_TEMPERATURE = "gpu_junction_temperature"
    """The hottest spot where the make tells it, else the chip."""
    MEMORY_TEMPERATURE = "gpu_memory_temperature"
    CLOCK = "gpu_clock"
    MEMORY_CLOCK = "gpu_memory_clock"
    PCIE_BANDWIDTH = "gpu_pcie_bandwidth"
    """Both directions together."""
    PCIE_EFFICIENCY = "gpu_pcie_efficiency"
    """The link's speed as a share of the most that it can do. Links go down to their lowest speed while idle."""
    PCIE_REPLAYS = "gpu_pcie_replays"
    """Counts up since the driver was loaded."""
    HEALTH = "gpu_health"
    """1 is well, 0 is not."""


UNITS: Final[dict[Measure, str]] = {
    Measure.UTILIZATION: "percent",
    Measure.MEMORY_ACTIVITY: "percent",
    Measure.VRAM_USED: "MiB",
    Measure.VRAM_TOTAL: "MiB",
    Measure.POWER: "W",
    Measure.JUNCTION_TEMPERATURE: "C",
    Measure.MEMORY_TEMPERATURE: "C",
    Measure.CLOCK: "MHz",
    Measure.MEMORY_CLOCK: "MHz",
    Measure.PCIE_BANDWIDTH: "Mb/s",
    Measure.PCIE_EFFICIENCY: "percent",
    Measure.PCIE_REPLAYS: "count",
    Measure.HEALTH: "state",
}
"""AMD's tools write MB and mean MiB: an MI300X of 192 GiB has 196,592 of them."""

"""AMD's device-metrics-exporter in our vocabulary.

Series and units: `docs/configuration/metricslist.md` of the exporter. Which labels it has is configured: `gpu_uuid` must be switched on,
and pod labels (`workload_id`, `project_id`) are passed on as "extra pod labels". Newer versions write label names in capitals.
"""

from __future__ import annotations

from typing import Final

from shared.metrics.devices import Device, Reading, Vendor
from shared.metrics.exposition import Exposition
from shared.metrics.gathering import Gathered, Labels, gather, holder_of
from shared.metrics.vocabulary import Measure

_CLOCK: Final = "gpu_clock"
_SPEED, _MOST_SPEED = "pcie_speed", "pcie_max_speed"

_FIRST_OF: Final = {
    Measure.UTILIZATION: ("gpu_gfx_activity",),
    Measure.MEMORY_ACTIVITY: ("gpu_umc_activity",),
    Measure.VRAM_USED: ("gpu_used_vram",),
    Measure.VRAM_TOTAL: ("gpu_total_vram",),
    Measure.POWER: ("gpu_package_power", "gpu_average_package_power"),
    Measure.JUNCTION_TEMPERATURE: ("gpu_junction_temperature", "gpu_edge_temperature"),
    Measure.MEMORY_TEMPERATURE: ("gpu_memory_temperature",),
    Measure.CLOCK: (f"{_CLOCK}:system", f"{_CLOCK}:gpu_clock_type_system"),
    Measure.MEMORY_CLOCK: (f"{_CLOCK}:memory", f"{_CLOCK}:gpu_clock_type_memory"),
    Measure.PCIE_BANDWIDTH: ("pcie_bandwidth",),
    Measure.PCIE_REPLAYS: ("pcie_replay_count",),
    Measure.HEALTH: ("gpu_health",),
}
"""The second of two is what the MI200 series has."""
SERIES: Final = frozenset({name.partition(":")[0] for names in _FIRST_OF.values() for name in names} | {_SPEED, _MOST_SPEED})

_BLANKS: Final = frozenset({float(0xFFFF), float(0xFFFFFFFF), float(0xFFFFFFFFFFFFFFFF)})
"""amd-smi gives the largest number of a type for what a board doesn't have."""
_NEVER_BLANK: Final = frozenset({"gpu_used_vram", "gpu_total_vram", "pcie_bandwidth", "pcie_replay_count"})
"""For these 65,535 is a number like any other."""
_OWN: Final = frozenset(
    {
        *("card_model", "card_series", "card_vendor", "cluster_name", "driver_version", "gpu_compute_partition_type", "gpu_id"),
        *("gpu_memory_partition_type", "gpu_partition_id", "gpu_uuid", "hostname", "kube_cluster_name", "serial_number", "vbios_version"),
        *("container", "namespace", "pod", "exported_container", "exported_namespace", "exported_pod", "clock_index", "clock_type"),
        *("deployment_mode", "hbm_index", "job_id", "job_partition", "job_user"),
    }
)
_WHOLE: Final = "spx"
"""The mode in which a device is one."""


def readings(exposition: Exposition) -> list[Reading]:
    """The devices of one exporter. In a partitioned mode the exporter tells activity of the first partition only; the others have none."""
    gathered = gather(exposition, _device, told_apart_by={_CLOCK: "clock_type"})
    return [
        Reading(
            device=device,
            values=_values(one),
            holder=holder_of(_lower(one.labels)),
            labels={name.lower(): value for name, value in one.labels.items() if value and name.lower() not in _OWN},
        )
        for device, one in gathered.items()
    ]


def _device(labels: Labels) -> Device | None:
    read = _lower(labels)
    if not read.get("hostname") or not read.get("gpu_id"):
        return None
    mode = (read.get("gpu_compute_partition_type") or "").lower() or None
    apart = mode not in (None, _WHOLE)
    return Device(
        vendor=Vendor.AMD,
        node=read["hostname"],
        index=read["gpu_id"],
        uuid=read.get("gpu_uuid") or None,
        model=read.get("card_series") or read.get("card_model") or None,
        partition=(read.get("gpu_partition_id") or "0") if apart else None,
        profile=mode if apart else None,
    )


def _values(one: Gathered) -> dict[Measure, float]:
    known = Gathered(one.labels, {name: value for name, value in one.series.items() if name in _NEVER_BLANK or value not in _BLANKS})
    values = {measure: value for measure, names in _FIRST_OF.items() if (value := known.get(*names)) is not None}
    speed, most = known.get(_SPEED), known.get(_MOST_SPEED)
    if speed is not None and most:
        values[Measure.PCIE_EFFICIENCY] = speed / most * 100
    return values


def _lower(labels: Labels) -> dict[str, str]:
    return {name.lower(): value for name, value in labels.items()}

"""NVIDIA's dcgm-exporter in our vocabulary.

Fields and units: `etc/default-counters.csv` of dcgm-exporter. The default set has neither FB_TOTAL nor the PCIe link
fields (ids 235 to 238); what is missing there is worked out where it can be, and left out where it can't.
"""

from __future__ import annotations

from typing import Final

from shared.metrics.devices import Device, Reading, Vendor
from shared.metrics.exposition import Exposition
from shared.metrics.gathering import Gathered, Labels, gather, holder_of
from shared.metrics.partitions import apart
from shared.metrics.vocabulary import Measure

_UTIL: Final = "DCGM_FI_DEV_GPU_UTIL"
_ENGINE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_COPY: Final = "DCGM_FI_DEV_MEM_COPY_UTIL"
_DRAM: Final = "DCGM_FI_PROF_DRAM_ACTIVE"
_USED, _FREE, _RESERVED, _TOTAL = (f"DCGM_FI_DEV_FB_{part}" for part in ("USED", "FREE", "RESERVED", "TOTAL"))
_GENERATION, _MOST_GENERATION = "DCGM_FI_DEV_PCIE_LINK_GEN", "DCGM_FI_DEV_PCIE_MAX_LINK_GEN"
_WIDTH, _MOST_WIDTH = "DCGM_FI_DEV_PCIE_LINK_WIDTH", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"
_SENT, _RECEIVED = "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"
_XID, _HEALTH = "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_GPU_HEALTH_STATUS"

_AS_IT_IS: Final = {
    "DCGM_FI_DEV_POWER_USAGE": Measure.POWER,
    "DCGM_FI_DEV_GPU_TEMP": Measure.JUNCTION_TEMPERATURE,
    "DCGM_FI_DEV_MEMORY_TEMP": Measure.MEMORY_TEMPERATURE,
    "DCGM_FI_DEV_SM_CLOCK": Measure.CLOCK,
    "DCGM_FI_DEV_MEM_CLOCK": Measure.MEMORY_CLOCK,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": Measure.PCIE_REPLAYS,
    _USED: Measure.VRAM_USED,
}
SERIES: Final = frozenset(
    {
        *_AS_IT_IS,
        _UTIL,
        _ENGINE,
        _COPY,
        _DRAM,
        _FREE,
        _RESERVED,
        _TOTAL,
        _GENERATION,
        _MOST_GENERATION,
        _WIDTH,
        _MOST_WIDTH,
        _SENT,
        _RECEIVED,
        _XID,
        _HEALTH,
    }
)

_TRANSFERS: Final = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""GT/s of a lane by the generation of PCI Express."""
_BLANK_INT32: Final = range(0x7FFFFFF0, 0x80000000)
_BLANK_FLOAT: Final = 140_737_488_355_328.0
_BLANK_INT64: Final = float(0x7FFFFFFFFFFFFFF0)
"""dcgm_structs.h: values of these and a few beyond stand for blank, not found, not supported, not permitted."""
_FAILED: Final = 20
_OWN: Final = frozenset(
    {
        *("gpu", "uuid", "pci_bus_id", "device", "modelname", "hostname", "dcgm_fi_driver_version", "gpu_i_profile", "gpu_i_id"),
        *(
            "container",
            "namespace",
            "pod",
            "pod_uid",
            "exported_container",
            "exported_namespace",
            "exported_pod",
            "err_code",
            "err_msg",
            "health_watch",
        ),
    }
)


def readings(exposition: Exposition) -> list[Reading]:
    """The devices of one exporter. Without a host's name or an index a series is of no device that anybody could find.

    DCGM repeats what it knows of a whole device for each of its MIG partitions; here it stands once.
    """
    gathered = gather(exposition, _device, told_apart_by={_HEALTH: "health_watch"})
    return apart(
        Reading(
            device=device,
            values=_values(one, whole=device.partition is None),
            holder=holder_of(one.labels),
            labels={name: value for name, value in one.labels.items() if value and name.lower() not in _OWN},
        )
        for device, one in gathered.items()
    )


def _device(labels: Labels) -> Device | None:
    read = {name.lower(): value for name, value in labels.items()}  # `Hostname` in older versions, `UUID`, `modelName`
    if not read.get("hostname") or not read.get("gpu"):
        return None
    return Device(
        vendor=Vendor.NVIDIA,
        node=read["hostname"],
        index=read["gpu"],
        uuid=read.get("uuid") or None,
        model=read.get("modelname") or None,
        partition=read.get("gpu_i_id") or None,
        profile=read.get("gpu_i_profile") or None,
    )


def _values(one: Gathered, *, whole: bool) -> dict[Measure, float]:
    known = Gathered(one.labels, {name: value for name, value in one.series.items() if not _is_blank(value)})
    values = {measure: known.series[name] for name, measure in _AS_IT_IS.items() if name in known.series}
    worked_out = {
        Measure.UTILIZATION: _share(known, _UTIL if whole else "", _ENGINE),
        Measure.MEMORY_ACTIVITY: _share(known, _COPY if whole else "", _DRAM),
        Measure.VRAM_TOTAL: _total(known),
        Measure.PCIE_BANDWIDTH: _bandwidth(known),
        Measure.PCIE_EFFICIENCY: _efficiency(known),
        Measure.HEALTH: _health(known),
    }
    return values | {measure: value for measure, value in worked_out.items() if value is not None}


def _share(known: Gathered, percent: str, ratio: str) -> float | None:
    """In percent. Of a MIG partition only the ratio is its own: the percentage is absent, or that of the whole device."""
    found = known.get(percent)
    if found is not None:
        return found
    part = known.get(ratio)
    return None if part is None else part * 100


def _total(known: Gathered) -> float | None:
    total, used, free = known.get(_TOTAL), known.get(_USED), known.get(_FREE)
    if total is not None:
        return total
    if used is None or free is None:
        return None
    return used + free + (known.get(_RESERVED) or 0.0)


def _bandwidth(known: Gathered) -> float | None:
    """Megabit a second of both directions; the profiling fields are bytes a second."""
    sent, received = known.get(_SENT), known.get(_RECEIVED)
    return None if sent is None or received is None else (sent + received) * 8 / 1e6


def _efficiency(known: Gathered) -> float | None:
    """The link's rate as a share of the most, in percent; by generation, and by width where both are known."""
    rate, most = (_TRANSFERS.get(int(known.get(name) or 0)) for name in (_GENERATION, _MOST_GENERATION))
    if rate is None or most is None:
        return None
    width, most_width = known.get(_WIDTH), known.get(_MOST_WIDTH)
    lanes = width / most_width if width is not None and most_width else 1.0
    return rate / most * lanes * 100


def _health(known: Gathered) -> float | None:
    """The worst of the exporter's own verdicts (0 pass, 10 warn, 20 fail), else whether the driver has met an XID error."""
    verdicts = [value for name, value in known.series.items() if name.startswith(f"{_HEALTH}:")]
    if verdicts:
        return float(max(verdicts) < _FAILED)
    xid = known.get(_XID)
    return None if xid is None else float(xid == 0)


def _is_blank(value: float) -> bool:
    if value < _BLANK_INT32.start:
        return False
    return value >= _BLANK_INT64 or _BLANK_FLOAT <= value < _BLANK_FLOAT + 8 or value in _BLANK_INT32

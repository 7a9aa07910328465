"""What the exporters of both makes say of the GPUs of a node, in their own formats.

Nothing is measured, since nothing runs: a GPU whose pod runs is busy, any other is idle, and how much so follows from the device, its pod
and the time, so that equal clusters give equal answers. Series, labels and units are those of NVIDIA's dcgm-exporter with its default
counters, and of AMD's device-metrics-exporter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from zlib import crc32

TEXT: Final = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
_RESOLUTION: Final = 15
"""Seconds for which values stay as they are; both exporters sample their devices now and then."""
_BLANK: Final = 9_223_372_036_854_775_794
"""DCGM's "not supported" of 64 bits."""
_DRIVERS: Final = {"nvidia": "570.148.08", "amd": "6.12.12"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """A kind of GPU. VRAM in MiB, power in W, clocks in MHz; `generation` of PCI Express; `hbm` boards tell the memory's temperature."""

    model: str
    vram: int
    power: int
    clock: int
    memory_clock: int
    generation: int = 4
    hbm: bool = False


# Data sheets of the makers; what EC2 puts into its machines: https://aws.amazon.com/ec2/instance-types/
_BOARDS: Final[Mapping[str, Board]] = {
    "g4dn": Board(model="Tesla T4", vram=15_360, power=70, clock=1590, memory_clock=5000, generation=3),
    "g5": Board(model="NVIDIA A10G", vram=23_028, power=300, clock=1710, memory_clock=6250),
    "g6": Board(model="NVIDIA L4", vram=23_034, power=72, clock=2040, memory_clock=6250),
    "g6e": Board(model="NVIDIA L40S", vram=46_068, power=350, clock=2520, memory_clock=9000),
    "p4d": Board(model="NVIDIA A100-SXM4-40GB", vram=40_960, power=400, clock=1410, memory_clock=1215, hbm=True),
    "p5": Board(model="NVIDIA H100 80GB HBM3", vram=81_559, power=700, clock=1980, memory_clock=2619, generation=5, hbm=True),
    "g4ad": Board(model="AMD Radeon Pro V520", vram=8_176, power=225, clock=1600, memory_clock=1000),
    "onprem-mi300x": Board(model="AMD Instinct MI300X OAM", vram=196_592, power=750, clock=2100, memory_clock=1300, generation=5, hbm=True),
}
_OTHER: Final = {"nvidia.com/gpu": _BOARDS["g5"], "amd.com/gpu": _BOARDS["onprem-mi300x"]}
_TRANSFERS: Final = {3: 8, 4: 16, 5: 32}
"""GT/s of a lane."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Holding:
    """The container that a GPU was given to; `busy` while it runs."""

    namespace: str
    pod: str
    uid: str
    container: str
    busy: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """One GPU of a node."""

    cluster: str
    node: str
    index: int
    board: Board
    holding: Holding | None

    @property
    def key(self) -> str:
        """What no other GPU has, of any cluster."""
        return f"{self.cluster}/{self.node}/{self.index}"

    @property
    def busy(self) -> bool:
        """Whether something runs on it."""
        return self.holding is not None and self.holding.busy


def board_of(instance_type: str, resource: str) -> Board:
    """The GPU of a machine."""
    return _BOARDS.get(instance_type.partition(".")[0], _OTHER[resource])


def nvidia(slots: Iterable[Slot], *, now: float) -> str:
    """As dcgm-exporter says it, with the fields of the link added."""
    text = _Text()
    for slot in slots:
        board = slot.board
        part = _Part(slot, now)
        used = part.vram
        sent = part.bandwidth * 1e6 / 8 * 0.35
        labels = {
            "gpu": str(slot.index),
            "UUID": f"GPU-{_uuid(slot.key)}",
            "pci_bus_id": f"00000000:{0x10 + slot.index:02X}:00.0",
            "device": f"nvidia{slot.index}",
            "modelName": board.model,
            "hostname": slot.node,
            "DCGM_FI_DRIVER_VERSION": _DRIVERS["nvidia"],
            **_pod(slot),
        }
        active = part.activity / 100
        for name, kind, value in (
            ("DCGM_FI_DEV_SM_CLOCK", "gauge", f"{part.clock}"),
            ("DCGM_FI_DEV_MEM_CLOCK", "gauge", f"{board.memory_clock}"),
            ("DCGM_FI_DEV_MEMORY_TEMP", "gauge", f"{part.temperature + 8 if board.hbm else _BLANK}"),
            ("DCGM_FI_DEV_GPU_TEMP", "gauge", f"{part.temperature}"),
            ("DCGM_FI_DEV_POWER_USAGE", "gauge", f"{part.power:.6f}"),
            ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", f"{int(now * board.power * 300)}"),
            ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "0"),
            ("DCGM_FI_DEV_GPU_UTIL", "gauge", f"{part.activity}"),
            ("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", f"{int(part.activity * 0.6)}"),
            ("DCGM_FI_DEV_ENC_UTIL", "gauge", "0"),
            ("DCGM_FI_DEV_XID_ERRORS", "gauge", "0"),
            ("DCGM_FI_DEV_FB_FREE", "gauge", f"{board.vram - used - 550}"),
            ("DCGM_FI_DEV_FB_USED", "gauge", f"{used}"),
            ("DCGM_FI_DEV_FB_RESERVED", "gauge", "550"),
            ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", f"{active:.6f}"),
            ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", f"{active * 0.55:.6f}"),
            ("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", f"{int(sent)}"),
            ("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", f"{int(part.bandwidth * 1e6 / 8 - sent)}"),
            ("DCGM_FI_DEV_PCIE_LINK_GEN", "gauge", f"{board.generation if slot.busy else 1}"),
            ("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "gauge", f"{board.generation}"),
        ):
            text.add(name, kind, labels, value)
    return text.whole()


def amd(slots: Iterable[Slot], *, now: float) -> str:
    """As device-metrics-exporter says it, with `gpu_uuid` switched on."""
    text = _Text()
    for slot in slots:
        board = slot.board
        part = _Part(slot, now)
        labels = {
            "card_model": "102-G30211-0C",
            "card_series": board.model,
            "card_vendor": "AMD",
            "driver_version": _DRIVERS["amd"],
            "gpu_compute_partition_type": "spx",
            "gpu_id": str(slot.index),
            "gpu_memory_partition_type": "nps1",
            "gpu_partition_id": "0",
            "gpu_uuid": _uuid(slot.key),
            "hostname": slot.node,
            "kube_cluster_name": slot.cluster,
            **(_pod(slot) or {"container": "", "namespace": "", "pod": ""}),
        }
        most = _TRANSFERS[board.generation]
        speed = most if slot.busy else 2.5
        for name, value in (
            ("gpu_gfx_activity", f"{part.activity}"),
            ("gpu_umc_activity", f"{int(part.activity * 0.6)}"),
            ("gpu_used_vram", f"{max(part.vram, 283)}"),
            ("gpu_total_vram", f"{board.vram}"),
            ("gpu_free_vram", f"{board.vram - max(part.vram, 283)}"),
            ("gpu_package_power", f"{int(part.power)}"),
            ("gpu_junction_temperature", f"{part.temperature + 9}"),
            ("gpu_memory_temperature", f"{part.temperature + 4 if board.hbm else 65535}"),
            ("pcie_bandwidth", f"{int(part.bandwidth)}"),
            ("pcie_speed", f"{speed:g}"),
            ("pcie_max_speed", f"{most}"),
            ("pcie_replay_count", "0"),
            ("gpu_health", "1"),
        ):
            text.add(name, "gauge", labels, value)
        for index, clock_type, clock in ((0, "system", part.clock), (8, "memory", board.memory_clock), (14, "data", 22)):
            text.add("gpu_clock", "gauge", {**labels, "clock_index": str(index), "clock_type": clock_type}, f"{clock}")
    return text.whole()


class _Part:
    """The values of a GPU that both formats have, whole where exporters say whole numbers."""

    def __init__(self, slot: Slot, now: float) -> None:
        board, busy = slot.board, slot.busy
        key = f"{slot.key}/{slot.holding.uid if slot.holding is not None else ''}"
        steady, moving = _share(key), _share(f"{key}/{int(now // _RESOLUTION)}")
        self.activity = int(82 + 10 * steady + 7 * moving) if busy else 0
        self.vram = int(board.vram * (0.55 + 0.3 * steady)) if busy else 0
        self.power = board.power * (0.62 + 0.2 * steady + 0.15 * moving if busy else 0.12 + 0.04 * steady)
        self.temperature = int(52 + 12 * steady + 6 * moving) if busy else int(27 + 6 * steady)
        self.clock = board.clock if busy else 210
        self.bandwidth = 4_000 + 24_000 * moving if busy else 1.0 + steady
        """Megabit a second, both ways."""


class _Text:
    """Series in the order in which they came, the samples of each together."""

    def __init__(self) -> None:
        self._series: dict[str, list[str]] = {}

    def add(self, name: str, kind: str, labels: Mapping[str, str], value: str) -> None:
        if name not in self._series:
            self._series[name] = [f"# HELP {name} {name}", f"# TYPE {name} {kind}"]
        inside = ",".join(f'{label}="{text}"' for label, text in labels.items())
        self._series[name].append(f"{name}{{{inside}}} {value}")

    def whole(self) -> str:
        return "".join(f"{line}\n" for lines in self._series.values() for line in lines)


def _pod(slot: Slot) -> dict[str, str]:
    holding = slot.holding
    return {} if holding is None else {"container": holding.container, "namespace": holding.namespace, "pod": holding.pod}


def _share(text: str) -> float:
    """A number from 0 to 1 that is the same for the same text."""
    return crc32(text.encode()) / 0xFFFFFFFF


def _uuid(text: str) -> str:
    digits = sha256(text.encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"

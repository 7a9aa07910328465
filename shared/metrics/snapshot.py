"""What one scrape of a region's cluster says: its GPUs, who holds them, and how each exporter answered.

A device that is not in the newest snapshot is gone: nothing is carried over from an earlier one.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from shared.metrics.devices import Device, Vendor
from shared.metrics.vocabulary import Measure

STALE_AFTER: Final = 3
"""A snapshot that is older than so many intervals says nothing of the present: its cluster doesn't answer, or nobody reads it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """The pod that holds a device. Without `job_id` the pod isn't the fleet's.

    `job_name` is what the submitter called the job, cut where the names of objects are; `project` is a label of the pod, where it has one.
    """

    namespace: str
    pod: str
    container: str | None = None
    job_id: str | None = None
    execution: int | None = None
    job_name: str | None = None
    project: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One device or partition. `device.node` is the name of its node object; `user` None: no pod holds it."""

    device: Device
    values: Mapping[Measure, float]
    user: User | None = None

    @property
    def label(self) -> str:
        """How people and dimensions name it on its node: `3`, or `3/7` for a partition."""
        return self.device.index if self.device.partition is None else f"{self.device.index}/{self.device.partition}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ExporterState:
    """How an exporter answered. `error` None: it did, with `gpus` devices in `seconds`; `broken` of its lines were none."""

    namespace: str
    pod: str
    node: str
    seconds: float
    gpus: int = 0
    broken: int = 0
    error: str | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Node and namespace."""
        return (self.node, self.namespace)


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """All GPUs of a region at a time (aware, UTC). `seconds` is what the scrape took."""

    region: str
    at: datetime
    seconds: float
    gpus: tuple[Gpu, ...] = ()
    exporters: tuple[ExporterState, ...] = ()

    @property
    def failures(self) -> int:
        """How many exporters did not answer, or not with GPUs."""
        return sum(one.error is not None for one in self.exporters)

    def age(self, now: datetime) -> float:
        """Seconds since it was taken, never negative: clocks differ."""
        return max(0.0, (now - self.at).total_seconds())


def units(gpus: Iterable[Gpu]) -> list[Gpu]:
    """What can be given to a pod: devices, and partitions in place of the device that they are parts of."""
    found = list(gpus)
    split = {(gpu.device.node, gpu.device.index) for gpu in found if gpu.device.partition is not None}
    return [gpu for gpu in found if gpu.device.partition is not None or (gpu.device.node, gpu.device.index) not in split]


def encode(snapshot: Snapshot) -> bytes:
    """As compressed JSON, some 50 bytes a GPU."""
    document = {
        "version": 1,
        "region": snapshot.region,
        "at": snapshot.at.isoformat(),
        "seconds": snapshot.seconds,
        "gpus": [_written(gpu) for gpu in snapshot.gpus],
        "exporters": [asdict(one) for one in snapshot.exporters],
    }
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), compresslevel=3, mtime=0)


def decode(data: bytes) -> Snapshot:
    """The snapshot that `encode` wrote. Raises ValueError for anything else."""
    try:
        document = json.loads(gzip.decompress(data))
        return Snapshot(
            region=document["region"],
            at=datetime.fromisoformat(document["at"]),
            seconds=document["seconds"],
            gpus=tuple(_read(gpu) for gpu in document["gpus"]),
            exporters=tuple(ExporterState(**one) for one in document["exporters"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError, EOFError, zlib.error) as error:
        raise ValueError(f"no snapshot of GPUs: {error}") from error


def _written(gpu: Gpu) -> dict[str, Any]:
    user = {} if gpu.user is None else {"user": _present(asdict(gpu.user))}
    return {"device": _present(asdict(gpu.device)), "values": dict(gpu.values), **user}


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _read(written: Mapping[str, Any]) -> Gpu:
    device = {"uuid": None, "model": None, **written["device"]}
    return Gpu(
        device=Device(**{**device, "vendor": Vendor(device["vendor"])}),
        # A measure that a newer worker wrote and this reader doesn't know is left aside.
        values={Measure(name): value for name, value in written["values"].items() if name in _MEASURES},
        user=User(**written["user"]) if "user" in written else None,
    )


_MEASURES: Final = frozenset(Measure)


@dataclass(slots=True)
class Failures:
    """How often exporters of a region failed since this process began, and when each last answered; for who shows it."""

    total: int = 0
    answered_at: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """By node and namespace: a pod that is replaced is the same exporter under another name."""

    def note(self, snapshot: Snapshot) -> None:
        """A scrape has ended. An exporter that is no longer there is forgotten."""
        self.total += snapshot.failures
        known, now = self.answered_at, {}
        for one in snapshot.exporters:
            if one.error is None:
                now[one.place] = snapshot.at
            elif one.place in known:
                now[one.place] = known[one.place]
        self.answered_at = now

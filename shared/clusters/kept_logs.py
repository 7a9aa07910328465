"""Where kept logs lie and what is written down about them: the index that a reader finds them by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Objects(Protocol):
    """A place for large objects, by key. Methods raise UnavailableError."""

    async def put(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        """Write an object whole."""
        ...

    async def get(self, key: str) -> bytes | None:
        """Read an object whole; None where there is none."""
        ...


class Folders(Protocol):
    """The same place, as one that can be looked through."""

    async def folders(self, prefix: str) -> list[str]:
        """What comes after it in keys that begin so, up to and with the next slash. Raises UnavailableError."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptLog:
    """The log of one container: `bytes` were kept under `key`; when `truncated`, they are the end of a longer one.

    With `timestamps` each line stands behind its time, as the kubelet gives it, so that who has followed the log can go on from it.
    """

    pod: str
    container: str
    key: str
    bytes: int
    truncated: bool = False
    exit_code: int | None = None
    timestamps: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LostLog:
    """The log of one container that could not be kept, and why."""

    pod: str
    container: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptLogs:
    """The index of an execution's logs."""

    job_id: str
    execution: int
    kept_at: datetime
    containers: tuple[KeptLog, ...]
    lost: tuple[LostLog, ...] = ()


def log_key(job_id: str, execution: int, pod: str, container: str) -> str:
    """The key of a container's log."""
    return f"logs/{job_id}/{execution}/{pod}/{container}.log"


def index_key(job_id: str, execution: int) -> str:
    """The key of an execution's index."""
    return f"logs/{job_id}/{execution}/index.json"


async def write_index(objects: Objects, index: KeptLogs) -> None:
    """Write an execution's index. Raises UnavailableError."""
    document = {**asdict(index), "kept_at": index.kept_at.isoformat()}
    await objects.put(index_key(index.job_id, index.execution), json.dumps(document).encode(), content_type="application/json")


async def read_kept(objects: Objects, job_id: str, execution: int) -> KeptLogs | None:
    """The index of an execution's logs; None where none were kept. Each log is read by its key. Raises UnavailableError."""
    data = await objects.get(index_key(job_id, execution))
    if data is None:
        return None
    document: dict[str, Any] = json.loads(data)
    return KeptLogs(
        job_id=document["job_id"],
        execution=document["execution"],
        kept_at=datetime.fromisoformat(document["kept_at"]),
        containers=tuple(_read(KeptLog, one) for one in document["containers"]),
        lost=tuple(_read(LostLog, one) for one in document["lost"]),
    )


class KeptExecutions:
    """Which executions of a job have left logs. Implements `shared.jobs.reconciliation.KeptLogs`."""

    def __init__(self, objects: Folders) -> None:
        self._objects = objects

    async def executions(self, job_id: str) -> list[int]:
        """Their numbers. Raises UnavailableError."""
        return [int(folder.rstrip("/")) for folder in await self._objects.folders(f"logs/{job_id}/")]


def _read(kind: type[T], document: Mapping[str, Any]) -> T:
    """A record of the fields that it knows: an index may be older than its reader, or newer."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type] # both kinds are dataclasses
    return kind(**{name: value for name, value in document.items() if name in known})

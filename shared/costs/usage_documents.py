"""What an observer tells of an hour, as it stands in the bucket: one object for each observer and hour, gzipped JSON."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final

from pydantic import TypeAdapter, ValidationError

from shared.costs.model import NodeUsage, PodUsage, Window

HOUR: Final = timedelta(hours=1)
VERSION: Final = 1
LARGEST: Final = 256 * 1024 * 1024
"""Bytes of JSON; a pod is some 400 of them. What says that it is more was not written by an observer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageDocument:
    """What one observer knows of an hour, from when to when it watched (`covered`), and whether it watched all pods or the fleet's only.

    Nodes and pods without an end were there at the end of what is covered.
    """

    version: int
    region: str
    cluster: str
    observer: str
    hour: datetime
    all_pods: bool
    covered: Sequence[Window]
    nodes: Sequence[NodeUsage]
    pods: Sequence[PodUsage]


def hour_of(moment: datetime) -> datetime:
    """The hour that a moment is in, in UTC."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def day_prefix(region: str, day: datetime) -> str:
    """What the keys of all objects of a day begin with."""
    return f"usage/region={region}/date={day:%Y-%m-%d}/"


def hour_prefix(region: str, hour: datetime) -> str:
    """What the keys of all objects of an hour begin with."""
    return f"{day_prefix(region, hour)}hour={hour:%H}/"


def hour_in(key: str) -> datetime:
    """The hour of the object with a key."""
    _, _, date, hour, _ = key.split("/")
    return datetime.fromisoformat(f"{date.removeprefix('date=')}T{hour.removeprefix('hour=')}:00:00+00:00")


def document_key(document: UsageDocument) -> str:
    """The key of an object."""
    return f"{hour_prefix(document.region, document.hour)}{document.observer}.json.gz"


def encode(document: UsageDocument) -> bytes:
    """The object. What is as ever (no end, no GPUs) is left out."""
    return gzip.compress(_adapter().dump_json(document, exclude_defaults=True), compresslevel=6, mtime=0)


def decode(data: bytes) -> UsageDocument:
    """The document. Raises ValueError for what isn't one, or one of a version that is not known here."""
    try:
        found = _adapter().validate_json(_unzipped(data))
    except (ValidationError, zlib.error, EOFError) as error:
        raise ValueError(f"no usage document: {str(error)[:200]}") from error
    if found.version != VERSION:
        raise ValueError(f"usage document of version {found.version}, known is {VERSION}")
    return found


def _unzipped(data: bytes) -> bytes:
    unzip = zlib.decompressobj(wbits=31)
    found = unzip.decompress(data, LARGEST)
    if not unzip.eof:
        raise ValueError("usage document cut off, or larger than any observer writes")
    return found


@cache
def _adapter() -> TypeAdapter[UsageDocument]:
    return TypeAdapter(UsageDocument)

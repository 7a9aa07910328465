"""What the callers of the emulator asked IAM for, as a file of JSON lines: each thing once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A right that was asked for.

    `caller` is a role's name, `keys` are values of condition keys: partition keys, the namespace of metrics, the region.
    """

    caller: str
    action: str
    resource: str
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()
    allowed: bool = True


class RecordFile:
    """The file that an emulator writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._told: set[Asked] = set()

    def tell(self, asked: Asked) -> None:
        """Append it, unless it is there."""
        if asked in self._told:
            return
        self._told.add(asked)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(asked)) + "\n")


def read(path: Path) -> set[Asked]:
    """What is in such a file; a last line that is still being written is left out."""
    whole, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    return {_asked(json.loads(line)) for line in whole.splitlines()}


def _asked(line: Mapping[str, Any]) -> Asked:
    return Asked(**dict(line) | {"keys": tuple((key, tuple(values)) for key, values in line["keys"])})

"""The log files of child processes: their last lines, for a message that says why one failed."""

from __future__ import annotations

import re
from pathlib import Path

_BLOCK = 16 * 1024


def tail(path: Path, *, lines: int = 20, begin: int = 0) -> str:
    """The last lines of a file, of what stands after byte `begin`; empty where there is no file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(begin, size - _BLOCK))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def size(path: Path) -> int:
    """How long a file is, in bytes; 0 where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def says(path: Path, pattern: re.Pattern[bytes], *, begin: int) -> bool:
    """Whether a pattern is found in a file after byte `begin`."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return pattern.search(file.read()) is not None
    except FileNotFoundError:
        return False

"""Manifest files, as they are named on a command line, into objects; every fault is told with the file and the place."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final, Literal

from shared.clusters.manifests import MAX_TEXT_BYTES, load_parts
from shared.errors import InvalidError, TooLargeError
from workers.cli.failures import CommandError, ExitCode, Fault

STDIN: Final = "-"
_CONTENTS: Final[dict[str, Literal["json", "yaml"]]] = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
"""What a file's name says of its text; where it says nothing, the text is looked at."""


def read_file(file: str) -> bytes:
    """The text of a file, or of standard input. Raises CommandError where it can't be read."""
    if not file:
        raise CommandError.at("FILE", file, "must name a file, or - for standard input")
    most = MAX_TEXT_BYTES + 1  # what is larger is refused by whoever reads it; a device has no end
    try:
        if file == STDIN:
            return sys.stdin.buffer.read(most)
        with Path(file).open("rb") as opened:
            return opened.read(most)
    except OSError as error:
        raise CommandError.at("FILE", file, error.strerror or "can't be read") from error


def load_objects(text: bytes, *, source: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects of a text, each with its pointer (`/0` is the first document). Raises CommandError with the place of every fault."""
    shown = source_of(source)
    try:
        return load_parts(text, content=_CONTENTS.get(Path(source).suffix.lower(), "auto"))
    except InvalidError as invalid:
        faults = [Fault.of(problem, source=shown) for problem in invalid.problems]
        raise CommandError(f"{shown}: not a manifest that can be read", code=ExitCode.USAGE, faults=faults) from invalid
    except TooLargeError as error:
        raise CommandError.at(shown, None, f"must be at most {MAX_TEXT_BYTES // 2**20} MiB ({MAX_TEXT_BYTES} bytes)") from error


def source_of(file: str) -> str:
    """What a file is called in what is told of it."""
    return "standard input" if file == STDIN else file

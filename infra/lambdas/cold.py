"""How long a cold start imports a package: in a fresh interpreter that sees the package and the standard library, and nothing else.

Nothing is written beside the modules, as nothing can be on Lambda. It is processor time that is told: what waits for a disk, and what else
the machine does, is no part of it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from infra.lambdas.archives import lay_out
from shared.errors import FleetError

RUNS: Final = 3
_PROGRAM: Final = """
import sys, time
sys.path.insert(0, sys.argv[1])
began = time.process_time()
__import__(sys.argv[2])
print(time.process_time() - began)
"""


class ColdImportError(FleetError):
    """A package can't be imported by itself; the message is the interpreter's."""


def unpacked(archive: Path, folder: Path) -> Path:
    """Unzip a package as Lambda does."""
    with ZipFile(archive) as opened:
        opened.extractall(folder)
    return folder


def interpreter(*arguments: str) -> list[str]:
    """A command of this interpreter that sees no installed package, takes nothing from the environment and writes nothing."""
    return [sys.executable, "-I", "-S", "-B", *arguments]


def import_seconds(contents: Mapping[str, bytes], module: str, *, runs: int = RUNS) -> float:
    """The median of some imports of a module out of a package's files. Raises ColdImportError."""
    with tempfile.TemporaryDirectory() as folder:
        place = lay_out(Path(folder), contents)
        return statistics.median(_once(place, module) for _ in range(runs))


def _once(place: Path, module: str) -> float:
    done = subprocess.run(interpreter("-c", _PROGRAM, str(place), module), capture_output=True, text=True, check=False)  # noqa: S603  # our own program
    if done.returncode:
        raise ColdImportError(f"{module}: {done.stderr.strip()}")
    return float(done.stdout)

"""Modules compiled for the runtime, so that a cold start doesn't compile them each time: it takes less than half as long then.

Lambda can't keep what it compiles. So each module comes with its code as Python writes it (PEP 552, unchecked: no time of a file is looked
at). Only an interpreter of the runtime's own version can write that; where there is none, packages have the source alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from infra.lambdas.archives import lay_out
from infra.lambdas.distributions import HOST_PYTHON
from shared.errors import FleetError

TASK_ROOT: Final = "/var/task"
"""Where Lambda unpacks a package: what tracebacks name."""


class CompileError(FleetError):
    """A module can't be compiled; the message is the compiler's."""


class Compiler:
    """Compiles what packages hold, each file once however many packages hold it."""

    def __init__(self, interpreter: Path) -> None:
        self._interpreter = interpreter
        self._done: dict[tuple[str, bytes], tuple[str, bytes] | None] = {}

    def compiled(self, contents: Mapping[str, bytes]) -> dict[str, bytes]:
        """The compiled modules of some files, by their paths. Raises CompileError."""
        sources = {(path, data) for path, data in contents.items() if path.endswith(".py")}
        if missing := sources - self._done.keys():
            self._compile(dict(missing))
        return dict(found for source in sources if (found := self._done[source]) is not None)

    def _compile(self, sources: Mapping[str, bytes]) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            folder = lay_out(Path(temporary), sources)
            command = [str(self._interpreter), "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
            command += ["-s", temporary, "-p", TASK_ROOT, temporary]
            # The order of constants in a set is that of their hashes, which would be others each time.
            environment = {"PYTHONHASHSEED": "0"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603  # ours
            made = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.pyc")}
        by_source = {_source_of(path): (path, data) for path, data in made.items()}
        for path, data in sources.items():
            self._done[path, data] = by_source.get(path)
        ours = sorted(path for path in sources.keys() - by_source.keys() if path.startswith(("shared/", "workers/")))
        if ours:  # others' packages have templates and code of other Pythons among their files
            raise CompileError(f"{', '.join(ours)}: {(done.stdout + done.stderr).strip()}")


@cache
def compiler(python: str) -> Compiler | None:
    """The compiler for a version of Python; None where no interpreter of it is here: this one, or `python<version>` on the path."""
    if python == HOST_PYTHON:
        return Compiler(Path(sys.executable))
    found = shutil.which(f"python{python}")
    return Compiler(Path(found)) if found is not None and _version(found) == python else None


def _version(interpreter: str) -> str | None:
    program = "import sys; print(f'{sys.version_info.major}.{sys.version_info.minor}')"
    done = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, check=False)  # noqa: S603  # one on the path
    return done.stdout.strip() if done.returncode == 0 else None


def _source_of(path: str) -> str:
    """`a/__pycache__/b.cpython-314.pyc` is of `a/b.py`."""
    place = PurePosixPath(path)
    return (place.parents[1] / f"{place.name.partition('.')[0]}.py").as_posix()

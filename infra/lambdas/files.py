"""The files of a distribution: as it is installed here, or out of the wheel for another platform.

Wheels are fetched by pip, all that are missing in one go, and kept; a wheel is a zip whose files stand where they belong
(https://packaging.python.org/en/latest/specifications/binary-distribution-format/).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from packaging.utils import parse_wheel_filename

from infra.lambdas.distributions import MACHINES, Target
from shared.errors import FleetError

Read = Callable[[], bytes]
_GLIBC: Final = ("2_34", "2_28", "2_17")
"""Of manylinux: Lambda's runtimes on Amazon Linux 2023 have glibc 2.34."""


class WheelsError(FleetError):
    """pip could not fetch what is needed; the message is its own."""


class Files:
    """Gives the files of distributions for a target. `kept` is where wheels are kept from one build to the next."""

    def __init__(self, target: Target, kept: Path) -> None:
        self._target = target
        self._wheels = kept / f"{target.architecture}-{target.python}"

    def fetch(self, versions: Mapping[str, str]) -> None:
        """Have all of these at hand. Raises WheelsError."""
        if self._target.here:
            return
        there = self._there()
        missing = {name: version for name, version in versions.items() if (name, version) not in there}
        if missing:
            self._download(missing)

    def of(self, name: str, version: str) -> Iterator[tuple[str, Read]]:
        """The path of each file within the package, and what reads it."""
        if self._target.here:
            yield from _installed(name)
        else:
            yield from _in_wheel(self._there()[name, version])

    def _there(self) -> dict[tuple[str, str], Path]:
        found = {}
        for path in self._wheels.glob("*.whl"):
            name, version, _, _ = parse_wheel_filename(path.name)
            found[str(name), str(version)] = path
        return found

    def _download(self, versions: Mapping[str, str]) -> None:
        machine = MACHINES[self._target.architecture]
        platforms = (*(f"manylinux_{glibc}_{machine}" for glibc in _GLIBC), f"manylinux2014_{machine}")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", self._target.python]
        command += [argument for one in platforms for argument in ("--platform", one)]
        command += ["--dest", str(self._wheels), *(f"{name}=={version}" for name, version in versions.items())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # names and versions of what is installed
        if done.returncode:
            raise WheelsError(f"wheels of Python {self._target.python} on {machine}: {done.stderr.strip()}")


def _installed(name: str) -> Iterator[tuple[str, Read]]:
    found = distribution(name)
    for path in found.files or ():
        if ".." not in path.parts:
            place = Path(str(found.locate_file(path)))
            if place.is_file():
                yield path.as_posix(), place.read_bytes


def _in_wheel(path: Path) -> Iterator[tuple[str, Read]]:
    with ZipFile(path) as wheel:
        for entry in wheel.infolist():
            if entry.is_dir():
                continue
            place = _installed_path(entry.filename)
            if place is not None:

                def read(name: str = entry.filename) -> bytes:
                    return wheel.read(name)

                yield place, read


def _installed_path(inside: str) -> str | None:
    """Where a file of a wheel comes to stand; None for what isn't a module's (`*.data/scripts`, headers)."""
    first, _, rest = inside.partition("/")
    if not first.endswith(".data"):
        return inside
    kind, _, place = rest.partition("/")
    return place if kind in {"purelib", "platlib"} else None

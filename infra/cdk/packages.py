"""Where the packages of the functions are, as `make lambdas` leaves them, and whether they are of this checkout.

`python -m infra.cdk.packages` tells what is missing before anything is installed: when it starts it needs nothing but the standard library.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.functions import ARCHITECTURE, FUNCTIONS, PYTHON
from shared.errors import FleetError

BUILT: Final = Path("build/lambdas")


class MissingPackageError(FleetError):
    """Packages of functions aren't there."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(f"{_listed(paths)} missing: `make lambdas` makes the packages of the functions")


class StalePackageError(FleetError):
    """Packages of functions are of other source, other versions or another machine than those that are to be deployed."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__(f"{_listed(paths)} not made of this checkout as it is: `make lambdas` makes the packages of the functions anew")


def package(folder: Path, name: str) -> Path:
    """The package of a function. Raises MissingPackageError."""
    path = folder / f"{name}.zip"
    if not path.is_file():
        raise MissingPackageError([path])
    return path


def check_there(folder: Path = BUILT) -> None:
    """Raise MissingPackageError, where the package of any function isn't there."""
    paths = [folder / f"{function.name}.zip" for function in FUNCTIONS]
    if missing := [path for path in paths if not path.is_file()]:
        raise MissingPackageError(missing)


def check(folder: Path = BUILT) -> None:
    """Raise MissingPackageError or StalePackageError, where the package of any function isn't there or isn't of this checkout."""
    from infra.lambdas.distributions import Target
    from infra.lambdas.fingerprints import fingerprint_in
    from infra.lambdas.packages import plan

    check_there(folder)
    target = Target.checked(PYTHON, ARCHITECTURE)
    paths = [(package(folder, function.name), function) for function in FUNCTIONS]
    if stale := [path for path, function in paths if fingerprint_in(path) != plan(function, target).fingerprint]:
        raise StalePackageError(stale)


def _listed(paths: Sequence[Path]) -> str:
    return f"{', '.join(map(str, paths))} {'is' if len(paths) == 1 else 'are'}"


def main() -> int:
    """Tell which packages are missing; 2 where any is."""
    try:
        check_there()
    except MissingPackageError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Where the packages of the functions are, as `make lambdas` leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from infra.functions import FUNCTIONS
from shared.errors import FleetError

BUILT: Final = Path("build/lambdas")


class MissingPackageError(FleetError):
    """A function's package isn't there."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is missing: `make lambdas` makes the packages of the functions")


def package(folder: Path, name: str) -> Path:
    """The package of a function. Raises MissingPackageError."""
    path = folder / f"{name}.zip"
    if not path.is_file():
        raise MissingPackageError(path)
    return path


def check(folder: Path = BUILT) -> None:
    """Raise MissingPackageError, where the package of any function isn't there."""
    for function in FUNCTIONS:
        package(folder, function.name)

"""`python -m infra.lambdas`: builds the packages, tells sizes and cold import times, and fails where one oversteps its bounds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.functions import ARCHITECTURE, FUNCTIONS, PYTHON, Function
from infra.lambdas.cold import import_seconds
from infra.lambdas.compiling import compiler
from infra.lambdas.distributions import HOST, HOST_PYTHON, MACHINES, Target
from infra.lambdas.files import Files
from infra.lambdas.packages import MB, UNZIPPED_MB, Package, build, contents, plan
from shared.errors import FleetError

OUT: Final = Path("build/lambdas")
_KEPT: Final = "wheels"
"""Beside the packages: what was downloaded for them."""


def main(arguments: Sequence[str]) -> int:
    """Build; 0 where all is well, 1 where a package is too large, 2 where it can't be built."""
    options = _options(arguments)
    functions = [function for function in FUNCTIONS if not options.only or function.name in options.only]
    python = options.python or (HOST_PYTHON if options.architecture == HOST else PYTHON)
    try:
        target = Target.checked(python, options.architecture)
        packages = build_all(functions, target, options.out)
        faults = [fault for package in packages for fault in package.faults()]
        _tell(target, packages, options.out)
    except FleetError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


def build_all(functions: Sequence[Function], target: Target, folder: Path) -> list[Package]:
    """The packages of some functions. Raises InvalidError, WheelsError, CompileError."""
    plans = [plan(function, target) for function in functions]
    files = Files(target, folder / _KEPT)
    files.fetch({name: version for planned in plans for name, version in planned.versions.items()})
    compiles = compiler(target.python)
    return [build(planned, files, folder, compiles) for planned in plans]


def _tell(target: Target, packages: Sequence[Package], folder: Path) -> None:
    place = f"Python {target.python} on {target.architecture}"
    missing = f"from source: there is no python{target.python} here to compile with, and a cold start takes more than twice as long"
    compiled = "compiled" if compiler(target.python) is not None else missing
    sys.stdout.write(f"{place}, {compiled}, in {folder}; cold imports are measured here, with Python {HOST_PYTHON}\n\n")
    sys.stdout.write(f"{'function':<16}{'zipped':>10}{'bound':>10}{'unzipped':>12}{'bound':>10}{'files':>8}{'cold import':>14}  digest\n")
    here = Files(_HERE, folder)
    alike = compiler(HOST_PYTHON) if compiler(target.python) is not None else None
    for package in packages:
        # What is for another machine can't be imported by this one; the same for this one is as much to import.
        held = contents(plan(package.function, _HERE), here, alike)
        cold = import_seconds(held, package.function.module)
        sys.stdout.write(
            f"{package.function.name:<16}{package.zipped / MB:>7.1f} MB{package.function.zipped_mb:>7} MB"
            f"{package.unzipped / MB:>9.1f} MB{UNZIPPED_MB:>7} MB{package.files:>8}{cold * 1000:>11.0f} ms  {package.digest[:12]}\n"
        )
        sys.stdout.flush()


_HERE: Final = Target.checked(HOST_PYTHON, HOST)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m infra.lambdas", description="Builds the packages of the Lambda functions.")
    names = [function.name for function in FUNCTIONS]
    parser.add_argument(
        "--only", action="append", default=[], choices=names, metavar="NAME", help=f"of {', '.join(names)}; all unless said"
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"where the packages go ({OUT})")
    parser.add_argument("--python", help=f"the version of the runtime ({PYTHON}; for the host this interpreter's)")
    architectures = (*MACHINES, HOST)
    parser.add_argument("--architecture", default=ARCHITECTURE, choices=architectures, help=f"{ARCHITECTURE} unless said")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

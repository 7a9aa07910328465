"""Whether what the stacks are made with is what this checkout names: `npx aws-cdk` installs nothing, only `make synth` does."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

CONSTRAINTS: Final = Path(__file__).parents[2] / "constraints.txt"
_MAKERS: Final = ("aws-cdk-lib", "aws-cdk.lambda-layer-kubectl-v36", "cdk-nag", "constructs", "jsii")
"""What decides a template, by the names of distributions."""


def outdated(constraints: Path = CONSTRAINTS) -> Iterator[str]:
    """A line for each of what the stacks are made with that is installed in another version than the one that they were tested with."""
    named = dict(line.split("==") for line in constraints.read_text(encoding="utf-8").splitlines() if "==" in line)
    for name in _MAKERS:
        try:
            found = version(name)
        except PackageNotFoundError:
            continue  # synthesis says so
        if found != named[name]:
            yield f"{name} {found} is installed and constraints.txt has {named[name]}: `make synth` installs that"

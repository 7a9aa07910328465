"""Which distributions a package holds: those that our modules import, and those that these say they require.

Versions are the ones that are installed, which `constraints.txt` names. What is required is asked of their metadata, for the target's
Python and platform; extras are nobody's requirement here.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distribution, packages_distributions, requires
from typing import Final

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from shared.errors import InvalidError, Problem

MACHINES: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
"""The architectures of Lambda, and their names in tags of wheels."""
HOST: Final = "host"
DATA_ONLY: Final = frozenset({"kubernetes-validate"})
"""Read as data, never imported: what they require isn't needed (`shared.policy.schemas`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where packages are to run: a Python such as 3.14, and an architecture of Lambda or `host`, this machine's and this interpreter's."""

    python: str
    architecture: str

    @property
    def here(self) -> bool:
        """Whether it is this machine and this interpreter, so that what is installed can be used as it is."""
        return self.architecture == HOST

    @classmethod
    def checked(cls, python: str, architecture: str) -> Target:
        """Raises InvalidError for a target that there isn't."""
        problems = []
        if architecture not in (*MACHINES, HOST):
            rule = f"must be one of {', '.join((*MACHINES, HOST))}"
            problems.append(Problem(pointer="/architecture", value=architecture, rule=rule))
        major, _, minor = python.partition(".")
        if major != "3" or not minor.isdecimal():
            problems.append(Problem(pointer="/python", value=python, rule="must be a version such as 3.14"))
        elif architecture == HOST and python != HOST_PYTHON:
            problems.append(Problem(pointer="/python", value=python, rule=f"must be {HOST_PYTHON}, this interpreter's, for the host"))
        if problems:
            raise InvalidError(problems)
        return cls(python=python, architecture=architecture)

    def environment(self) -> dict[str, str]:
        """What markers of requirements are judged by."""
        found = {name: str(value) for name, value in default_environment().items()} | {"extra": ""}
        if not self.here:
            found |= {
                "python_version": self.python,
                "python_full_version": f"{self.python}.0",
                "platform_machine": MACHINES[self.architecture],
                "platform_system": "Linux",
                "sys_platform": "linux",
                "os_name": "posix",
                "implementation_name": "cpython",
                "platform_python_implementation": "CPython",
            }
        return found


HOST_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
HOST_MACHINE: Final = platform.machine()


def distributions_of(imports: Iterable[str], target: Target, *, without: Collection[str] = ()) -> dict[str, str]:
    """The distributions behind some imported names and all that they require, each with its version.

    `without` names distributions that are left out, with what only they require. Raises InvalidError for an import that nothing installed
    provides.
    """
    environment = target.environment()
    providers = _providers()
    unknown = sorted(name for name in imports if name.partition(".")[0] not in providers)
    if unknown:
        raise InvalidError(Problem(pointer="/imports", value=name, rule="must be of an installed distribution") for name in unknown)
    ahead = [provider for name in imports for provider in providers[name.partition(".")[0]]]
    found: dict[str, str] = {}
    while ahead:
        name = str(canonicalize_name(ahead.pop()))
        if name in found or name in without:
            continue
        found[name] = distribution(name).version
        if name not in DATA_ONLY:
            wanted = (Requirement(text) for text in requires(name) or ())
            ahead += [one.name for one in wanted if one.marker is None or one.marker.evaluate(environment)]
    return dict(sorted(found.items()))


@cache
def _providers() -> dict[str, list[str]]:
    return {name: sorted(set(found)) for name, found in packages_distributions().items()}

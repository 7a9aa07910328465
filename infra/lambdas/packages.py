"""A function's package: what is in it, how large it is, and whether that is within its bounds."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.functions import Function
from infra.lambdas import archives
from infra.lambdas.compiling import Compiler
from infra.lambdas.distributions import Target, distributions_of
from infra.lambdas.files import Files
from infra.lambdas.fingerprints import MADE_OF, fingerprint
from infra.lambdas.pruning import kept
from infra.lambdas.sources import ROOT, Sources, path_of, sources_of

MB: Final = 1024 * 1024
UNZIPPED_MB: Final = 250
"""Of any function, layers included: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a package is to hold."""

    function: Function
    target: Target
    sources: Sources
    versions: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """What it is made of (`infra.lambdas.fingerprints`)."""
        return fingerprint(self.sources, self.versions, self.target, dict(_metadata()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """A package that stands. Sizes in bytes; `digest` is the SHA-256 of its archive."""

    function: Function
    path: Path
    zipped: int
    unzipped: int
    files: int
    digest: str
    versions: dict[str, str]

    def faults(self) -> list[str]:
        """The bounds that it oversteps."""
        bounds = (("zipped", self.zipped, self.function.zipped_mb), ("unzipped", self.unzipped, UNZIPPED_MB))
        over = [(what, size / MB, bound) for what, size, bound in bounds if size > bound * MB]
        return [f"{self.function.name}: {size:.1f} MB {what}, must be at most {bound} MB" for what, size, bound in over]


def plan(function: Function, target: Target) -> Plan:
    """What a function's package is to hold for a target. Raises InvalidError for an import that nothing installed provides."""
    sources = sources_of(function.module, without=function.without)
    others = {name for name in sources.others if name.partition(".")[0] not in function.without}
    versions = distributions_of(others, target, without=function.without)
    return Plan(function=function, target=target, sources=sources, versions=versions)


def contents(planned: Plan, files: Files, compiler: Compiler | None = None) -> dict[str, bytes]:
    """The files of a package by their paths. Its distributions must have been fetched. Raises CompileError."""
    found = dict(_ours(planned.sources)) | dict(_metadata()) | {MADE_OF: planned.fingerprint.encode()}
    for name, version in planned.versions.items():
        found |= {path: read() for path, read in files.of(name, version) if kept(name, path, planned.sources.services)}
    return found | compiler.compiled(found) if compiler is not None else found


def build(planned: Plan, files: Files, folder: Path, compiler: Compiler | None = None) -> Package:
    """Write the package into a folder. Its distributions must have been fetched. Raises CompileError."""
    held = contents(planned, files, compiler)
    path = folder / f"{planned.function.name}.zip"
    digest = archives.write(path, held)
    return Package(
        function=planned.function,
        path=path,
        zipped=path.stat().st_size,
        unzipped=sum(map(len, held.values())),
        files=len(held),
        digest=digest,
        versions=planned.versions,
    )


def _ours(sources: Sources) -> Iterator[tuple[str, bytes]]:
    for module in sources.modules:
        path = path_of(module)
        assert path is not None
        yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def _metadata() -> Iterator[tuple[str, bytes]]:
    """What the version is read from (`workers.about`)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    text = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
    yield f"{name}-{version}.dist-info/METADATA", text.encode()

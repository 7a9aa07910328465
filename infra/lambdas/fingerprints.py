"""What a package was made of, as a digest in the package: so that one made of other source isn't deployed as if it were of this.

The archive's own digest can't tell: the same source is compiled where an interpreter of the runtime is there and not elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

from infra.lambdas.distributions import Target
from infra.lambdas.sources import ROOT, Sources, path_of

MADE_OF: Final = "made-of.sha256"
"""The file in a package that holds its fingerprint."""
_BUILDER: Final = Path(__file__).parent


def fingerprint(sources: Sources, versions: Mapping[str, str], target: Target, more: Mapping[str, bytes]) -> str:
    """The SHA-256 of all that decides what a package holds: our modules, versions of others, the target, and the code that builds it.

    `more` are files of a package that are none of these, by their paths.
    """
    digest = hashlib.sha256()
    for name, data in [*_parts(sources, versions, target), *sorted(more.items())]:
        digest.update(f"{name} {hashlib.sha256(data).hexdigest()}\n".encode())
    return digest.hexdigest()


def fingerprint_in(archive: Path) -> str | None:
    """The fingerprint that a package tells; None of one that tells none, or is no whole archive."""
    try:
        with ZipFile(archive) as opened:
            return opened.read(MADE_OF).decode()
    except (KeyError, BadZipFile, UnicodeDecodeError):
        return None


def _parts(sources: Sources, versions: Mapping[str, str], target: Target) -> Iterator[tuple[str, bytes]]:
    yield "target", f"{target.python} {target.architecture}".encode()
    for name, version in sorted(versions.items()):
        yield name, version.encode()
    ours = [path for module in sources.modules if (path := path_of(module)) is not None]
    for path in sorted([*ours, *_BUILDER.glob("*.py")]):
        yield path.relative_to(ROOT).as_posix(), path.read_bytes()

"""Takes out of an installation what no program of the fleet reads; the image's build runs it with the installation's own Python.

Nothing that is imported goes: it is read off the code where that can be, and tests run what is left.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

_PYARROW = ("include", "tests", "src", "libarrow_flight*", "_flight*", "libarrow_python_flight*", "*.pyx", "*.pxd", "*.pxi", "includes")
"""Headers, sources, and Flight, a protocol that nothing here speaks; it is loaded when it is asked for."""


def unused(packages: Path) -> Iterator[Path]:
    """What may go from a folder of packages."""
    for pattern in _PYARROW:
        yield from (packages / "pyarrow").glob(pattern)
    kept = f"v{import_module('shared.policy.schemas').KUBERNETES_VERSION}-local"
    for schemas in (packages / "kubernetes_validate" / "kubernetes-json-schema").glob("v*"):
        if not schemas.name.startswith(kept):
            yield schemas


def main() -> None:
    """Remove it, and tell how much it was."""
    freed = 0
    for path in unused(Path(sysconfig.get_path("purelib"))):
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        freed += sum(file.stat().st_size for file in files)
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    sys.stdout.write(f"{freed / 1_000_000:.0f} MB less\n")


if __name__ == "__main__":
    main()

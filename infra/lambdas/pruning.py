"""What of a distribution is never loaded on Lambda, and so is no part of a package. Each rule says what it leaves out and why."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import PurePosixPath
from typing import Final

from shared.policy.schemas import KUBERNETES_VERSION

Rule = Callable[[str, Collection[str]], bool]
"""Whether a file is kept: its path within the package, and the services of AWS that are spoken to."""

_UNWANTED_SUFFIXES: Final = (".pyc", ".pyi", ".pyx", ".pxd", ".pxi", ".c", ".h", ".hpp", ".cc", ".a", ".pth")
_UNWANTED_FOLDERS: Final = frozenset({"__pycache__", "tests", "include"})
_METADATA: Final = ("METADATA", "entry_points.txt")
"""Of a `.dist-info` folder: what says the version, and which entry points there are. Licences are kept as well."""


def kept(name: str, path: str, services: Collection[str]) -> bool:
    """Whether a file of a distribution belongs in a package."""
    parts = PurePosixPath(path).parts
    if parts[0].endswith(".dist-info"):
        return parts[-1] in _METADATA or any(word in path.lower() for word in ("licen", "copying", "notice"))
    if path.endswith(_UNWANTED_SUFFIXES) or _UNWANTED_FOLDERS & set(parts[1:-1]):
        return False
    rule = _RULES.get(name)
    return rule is None or rule(path, services)


def _botocore(path: str, services: Collection[str]) -> bool:
    """Descriptions of those services only; what isn't in a folder of a service (endpoints, partitions, retries) is for all of them."""
    parts = PurePosixPath(path).parts
    if parts[:2] != ("botocore", "data") or len(parts) == 3:
        return True
    # Examples of calls are for documentation.
    return parts[2] in services and not parts[-1].startswith("examples-")


def _kubernetes(path: str, _: Collection[str]) -> bool:
    """Without the 800 classes of objects and 70 of calls, each loaded when it is named: the fleet sends and reads plain JSON."""
    parts = PurePosixPath(path).parts
    generated = any(folder in parts for folder in ("models", "api")) and "client" in parts
    return not generated or parts[-1] == "__init__.py"


def _kubernetes_validate(path: str, _: Collection[str]) -> bool:
    """The schemas of one version out of some twenty, in the form that is read; nothing of it is imported."""
    return f"/v{KUBERNETES_VERSION}-local-strict/" in path or path == "kubernetes_validate/__init__.py"


def _pyarrow(path: str, _: Collection[str]) -> bool:
    """What tables and Parquet need, and what that is linked against: no network, no other formats; each library once, by its own name."""
    name = PurePosixPath(path).name
    if "/src/" in path or name.startswith(_ARROW_UNUSED):
        return False
    # A wheel has no links, so that libarrow_python is in it three times; what is linked against names its ABI version alone.
    return not (name.startswith("libarrow_python") and (name.endswith(".so") or name.count(".") > 2))


_ARROW_UNUSED: Final = (
    *("libarrow_flight", "libarrow_s3", "libarrow_python_flight"),
    *("_flight", "_substrait", "_s3fs", "_gcsfs", "_azurefs", "_hdfs", "_orc", "_dataset_orc", "_pyarrow_cpp_tests", "_cuda"),
)

_RULES: Final[dict[str, Rule]] = {
    "botocore": _botocore,
    "kubernetes": _kubernetes,
    "kubernetes-validate": _kubernetes_validate,
    "pyarrow": _pyarrow,
}

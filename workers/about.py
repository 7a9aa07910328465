"""What this service calls itself."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

SERVICE = "gpufleet"
UNKNOWN = "0"
"""The release of code that runs as it lies there, without having been installed."""


@cache
def release() -> str:
    """The installed version."""
    try:
        return version("gpufleet")
    except PackageNotFoundError:
        return UNKNOWN


def cluster_id(region: str) -> str:
    """The name of a region's cluster, where a door wants one."""
    return f"{SERVICE}-{region}"

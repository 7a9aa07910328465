"""What this service calls itself."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

SERVICE = "gpufleet"


@cache
def release() -> str:
    """The installed version."""
    try:
        return version("gpufleet")
    except PackageNotFoundError:
        return "0"


def cluster_id(region: str) -> str:
    """The name of a region's cluster, where a door wants one."""
    return f"{SERVICE}-{region}"

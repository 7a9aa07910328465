"""The environment variables of the embedded fleet: of its children, and of whoever wants to use it from another terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

CONTROL_REGION = "us-east-1"

_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "SYSTEMROOT")
"""What children get of our own environment. Not all of it: a real AWS profile or a real kubeconfig must never reach them by accident."""


def aws(endpoint: str, region: str = CONTROL_REGION) -> dict[str, str]:
    """What a producer needs to reach the emulator with any AWS client. The credentials are no secret: the emulator takes any."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "gpufleet",
        "AWS_SECRET_ACCESS_KEY": "gpufleet",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
    }


def base() -> dict[str, str]:
    """What every child gets: enough of ours to find Python and its packages."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ} | {"PYTHONUNBUFFERED": "1"}


def emulator(port: int, scratch: Path) -> dict[str, str]:
    """For ministack: on the loopback interface, in memory alone, without listeners that nobody asked for."""
    return base() | {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "LOG_LEVEL": "WARNING",
        "PERSIST_STATE": "0",
        "S3_PERSIST": "0",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "DOCKER_HOST": "unix:///nonexistent/gpufleet-needs-no-docker.sock",
        "MINISTACK_REGION": CONTROL_REGION,
        "TMPDIR": str(scratch),  # it writes a file with its process id there
    }


def worker(endpoint: str, *, regions: Sequence[str], kubeconfig: Path, more: Mapping[str, str]) -> dict[str, str]:
    """For the workers and the API; `more` goes over the embedded fleet's own settings, most of them shorter than in production."""
    return {
        **base(),
        **aws(endpoint),
        "AWS_EC2_METADATA_DISABLED": "true",
        "GPUFLEET_CONTROL_REGION": CONTROL_REGION,
        "GPUFLEET_REGIONS": ",".join(regions),
        "GPUFLEET_KUBECONFIG": str(kubeconfig),
        "GPUFLEET_SWEEP_SECONDS": "2",
        "GPUFLEET_LEASE_SECONDS": "10",
        "GPUFLEET_WEBHOOK_STREAM_LEASE_SECONDS": "6",
        "GPUFLEET_SHUTDOWN_SECONDS": "4",
        "GPUFLEET_METRICS_SECONDS": "10",
        # The emulator keeps every sample in memory; what is left out here (projects), `/metrics` has.
        "GPUFLEET_METRICS_ROLLUPS": "region,region+node,region+namespace,region+namespace+job_id",
        "GPUFLEET_LOG_LEVEL": "INFO",
        **more,
    }


@contextmanager
def settings_alone(variables: Mapping[str, str]) -> Iterator[None]:
    """Set AWS and fleet variables for a while, and only those: botocore reads them when a client is made."""
    before = {name: value for name, value in os.environ.items() if name.upper().startswith(("AWS_", "GPUFLEET_"))}
    for name in before:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name, None)
        os.environ.update(before)

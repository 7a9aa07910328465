"""`/metrics` for Prometheus, over whatever collectors a registry has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import start_http_server
from prometheus_client.registry import CollectorRegistry

from shared.errors import ConflictError


@contextmanager
def serving(registry: CollectorRegistry, *, host: str, port: int) -> Iterator[int]:
    """Serve in a thread until the block ends; gives the port. Raises ConflictError where it can't listen there."""
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConflictError(f"/metrics can't be served at {host}:{port}: {error} (GPUFLEET_METRICS_HOST, GPUFLEET_METRICS_PORT)") from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

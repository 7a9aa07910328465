"""The API as a server of its own (uvicorn), on the loopback interface.

Without an identity source everybody who reaches the port may do everything; so the server refuses to listen where others could reach it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
import uvicorn
from fastapi import FastAPI
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.errors import FleetError
from shared.settings import Settings
from workers.api.app import create_app
from workers.api.cluster_access import ClusterAccess
from workers.api.core import open_core

log = structlog.get_logger()


class ServerSettings(BaseSettings):
    """Where the server listens, and how long it lets requests finish when it is asked to end (seconds)."""

    model_config = SettingsConfigDict(env_prefix="GPUFLEET_API_", frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)


class ExposedError(FleetError):
    """The server was to listen where others could reach it, and there is nothing to tell who they are."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"refusing to listen on {host}: without an identity source the API listens on the loopback interface only; "
            "set GPUFLEET_API_HOST=127.0.0.1, or put the API behind API Gateway (workers.api.lambda_handler)"
        )


def check_host(host: str) -> None:
    """Raise ExposedError unless every address of a host is of the loopback interface."""
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host or "0.0.0.0", None)}
    except (OSError, UnicodeError):
        raise ExposedError(host) from None
    if not all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses):
        raise ExposedError(host)


async def serve(settings: Settings, where: ServerSettings, stop: asyncio.Event) -> None:
    """Serve until asked to stop. Raises ExposedError, UnavailableError, NotFoundError (a queue is missing)."""
    check_host(where.host)
    access = ClusterAccess(settings)
    try:
        async with open_core(settings, access=access) as core:
            app = create_app(core)
            app.open()
            await _run(app, where, stop, grace=settings.shutdown_seconds)
    finally:
        await access.close()


async def _run(app: FastAPI, where: ServerSettings, stop: asyncio.Event, *, grace: float) -> None:
    config = uvicorn.Config(
        app,
        host=where.host,
        port=where.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=max(1, int(grace)),
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve())
    asked = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([serving, asked], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        asked.cancel()


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: this process has its own (`workers.process`)."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

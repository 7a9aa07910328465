"""The API as a server of its own (uvicorn).

Without an identity source everybody who reaches the port may do everything; so the server then listens on the loopback interface only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import h11
import structlog
import uvicorn
from fastapi import FastAPI
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from uvicorn.protocols.http.h11_impl import H11Protocol

from shared.errors import FleetError
from shared.settings import Settings
from workers.api.app import create_app
from workers.api.cluster_access import ClusterAccess
from workers.api.core import Core, open_core
from workers.api.figures import Figures
from workers.api.following import Following
from workers.api.rate_limits import Rates
from workers.api.vitals import DoorVitals
from workers.loopback import is_loopback
from workers.probing import probed

log = structlog.get_logger()

HEAD_SECONDS: Final = 20.0
"""How long a client may take from its connection, or the first byte of another request on it, to the end of the request's headers."""


class ServerSettings(BaseSettings):
    """Where the server listens, and how long it lets requests finish when it is asked to end (seconds)."""

    model_config = SettingsConfigDict(env_prefix="GPUFLEET_API_", frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    trusted_proxies: str | None = None
    """Addresses or networks of proxies, separated by commas, whose X-Forwarded-For says who the client is; nobody else's does."""


class ExposedError(FleetError):
    """The server was to listen where others could reach it, and there is nothing to tell who they are."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"refusing to listen on {host}: without an identity source the API listens on the loopback interface only; set "
            "GPUFLEET_IDENTITY=keys (gpufleet keys create, on loopback, makes the first), GPUFLEET_API_HOST=127.0.0.1, or put the API "
            "behind API Gateway (workers.api.lambda_handler)"
        )


class NoGatewayError(FleetError):
    """The only source is one that needs API Gateway, so that nobody could ever call this server."""

    def __init__(self) -> None:
        super().__init__(
            "GPUFLEET_IDENTITY=iam and jwt know callers by the events of API Gateway, which only workers.api.lambda_handler gets; a server "
            "of its own needs GPUFLEET_IDENTITY=keys"
        )


def check_identity(settings: Settings, host: str) -> None:
    """Raise ExposedError or NoGatewayError where a server couldn't tell its callers."""
    if not settings.identity:
        check_host(host)
    elif "keys" not in settings.identity:
        raise NoGatewayError


def check_host(host: str) -> None:
    """Raise ExposedError unless every address of a host is of the loopback interface."""
    if not is_loopback(host):
        raise ExposedError(host)


async def serve(settings: Settings, where: ServerSettings, stop: asyncio.Event) -> None:
    """Serve until asked to stop. Raises ExposedError, NoGatewayError, UnavailableError, NotFoundError (a queue is missing)."""
    check_identity(settings, where.host)
    access = ClusterAccess(settings)
    try:
        async with open_core(settings, access=access) as core:
            await serve_core(core, where, stop)
    finally:
        await access.close()


async def serve_core(core: Core, where: ServerSettings, stop: asyncio.Event) -> None:
    """Serve over a core that is ready until asked to stop; for whoever has looked at the identity sources already."""
    settings = core.settings
    following = replace(core, following=Following(stopping=stop))
    app = create_app(following, rates=Rates(settings.rate_limit), figures=Figures(), local_only=not settings.identity)
    app.open()
    async with probed(settings, DoorVitals(core), stop):
        await _run(app, where, stop, grace=settings.shutdown_seconds)


async def _run(app: FastAPI, where: ServerSettings, stop: asyncio.Event, *, grace: float) -> None:
    config = uvicorn.Config(
        app,
        http=_Protocol,
        host=where.host,
        port=where.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=where.trusted_proxies is not None,
        forwarded_allow_ips=where.trusted_proxies,
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


class _Protocol(H11Protocol):
    """Uvicorn's own, which would wait for ever for the rest of a request's headers; between requests it has its keep-alive timeout."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        """Begin to wait."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Wait on while there is no whole head."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._late is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing comes any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """Uvicorn without its signal handlers: this process has its own (`workers.process`)."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

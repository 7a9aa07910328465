"""The app: every door over one core.

The routes of a group are imported when a request first asks for its paths (or for the description of the API), so that a cold start of the
submit handler doesn't pay for doors that it never opens. A server that stays loads all of them before it serves.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from workers.about import release
from workers.api import documentation, errors
from workers.api.core import Core
from workers.api.heads import Heads
from workers.api.identity import Identity, authentication
from workers.api.limits import BodyLimit
from workers.api.local_only import LocalOnly
from workers.api.requests import Requests

if TYPE_CHECKING:
    from workers.api.figures import Figures
    from workers.api.rate_limits import Rates


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The routes of one module (its `router`), all of which are under one of the prefixes."""

    module: str
    prefixes: tuple[str, ...]


GROUPS: Final = (
    Group(module="workers.api.gco.info", prefixes=("/healthz", "/readyz", "/api/v1/health", "/api/v1/status")),
    Group(module="workers.api.gco.metrics", prefixes=("/metrics",)),
    Group(module="workers.api.gco.policy", prefixes=("/api/v1/policy",)),
    Group(module="workers.api.gco.manifests", prefixes=("/api/v1/manifests",)),
    Group(module="workers.api.gco.jobs", prefixes=("/api/v1/jobs",)),
    Group(module="workers.api.gco.job_details", prefixes=("/api/v1/jobs",)),
    Group(module="workers.api.gco.logs", prefixes=("/api/v1/jobs",)),
    Group(module="workers.api.gco.retry", prefixes=("/api/v1/jobs",)),
    Group(module="workers.api.gco.templates", prefixes=("/api/v1/templates", "/api/v1/jobs")),
    Group(module="workers.api.gco.webhooks", prefixes=("/api/v1/webhooks",)),
    Group(module="workers.api.gco.queue", prefixes=("/api/v1/queue",)),
    Group(module="workers.api.gco.cost", prefixes=("/api/v1/cost",)),
    Group(module="workers.api.fleet.routes", prefixes=("/fleet/v1",)),
)
"""In the order of the description of the API."""


class Doors(FastAPI):
    """An app whose groups of routes are opened when they are first asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._own: tuple[BaseRoute, ...] = ()
        self._opened: dict[Group, list[BaseRoute]] = {}

    def open(self, path: str | None = None) -> None:
        """Open the groups that may answer a path; all of them without one, or for a path that no group claims.

        Whatever is opened first, routes stand in the order of their groups. They are put there as they are, since FastAPI takes three
        times as long to find a route in a router that was included.
        """
        if len(self._opened) == len(GROUPS):
            return
        claimed = [group for group in GROUPS if path is not None and path.startswith(group.prefixes)]
        asked = [group for group in claimed or GROUPS if group not in self._opened]
        if not asked:
            return
        if not self._opened:
            self._own = tuple(self.router.routes)
        self._opened |= {group: import_module(group.module).router.routes for group in asked}
        self.router.routes[:] = [*self._own, *chain.from_iterable(self._opened.get(group, ()) for group in GROUPS)]

    def openapi(self) -> dict[str, Any]:
        """The description of every group, in their order."""
        self.open()
        document = super().openapi()
        document["components"]["schemas"] |= errors.schemas()
        return documentation.completed(document)


class _Opening:
    """Pure ASGI: opens what a request asks for."""

    def __init__(self, app: ASGIApp, *, doors: Doors) -> None:
        self._app = app
        self._doors = doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._doors.open(scope["path"])
        await self._app(scope, receive, send)


def create_app(core: Core, *, rates: Rates | None = None, figures: Figures | None = None, local_only: bool = False) -> Doors:
    """The app over a core that is ready. Whoever made the core closes it.

    Without `rates`, nobody is told that he asks too often; without `figures`, requests aren't counted. `local_only` refuses what browsers
    send for pages of others.
    """
    app = _doors()
    app.state.core = core
    app.state.figures = figures
    errors.install(app)
    documentation.install(app)
    app.add_middleware(_Opening, doors=app)
    app.add_middleware(Heads)
    app.add_middleware(BodyLimit, limit=core.settings.max_body_bytes)
    if rates is not None:
        from workers.api.rate_limits import RateLimits

        app.add_middleware(RateLimits, rates=rates)
    if local_only:
        app.add_middleware(LocalOnly)
    app.add_middleware(Identity, authentication=authentication(core), guesses=rates.guesses if rates is not None else None)
    app.add_middleware(Requests, note=figures.note if figures is not None else None)
    return app


def description() -> dict[str, Any]:
    """The description of the API, without an API."""
    return _doors().openapi()


def _doors() -> Doors:
    return Doors(
        title="gpufleet",
        version=release(),
        description="Runs GPU jobs on Kubernetes clusters in many regions, exactly once.",
        docs_url=None,
        redoc_url=None,
    )

"""The app: every door over one core."""

from __future__ import annotations

from fastapi import FastAPI

from workers.api import documentation, errors
from workers.api.about import release
from workers.api.core import Core
from workers.api.fleet.routes import router as fleet
from workers.api.gco.info import router as gco_info
from workers.api.gco.queue import router as gco_queue
from workers.api.limits import BodyLimit
from workers.api.requests import Requests


def create_app(core: Core) -> FastAPI:
    """The app over a core that is ready. Whoever made the core closes it."""
    app = FastAPI(
        title="gpufleet",
        version=release(),
        description="Runs GPU jobs on Kubernetes clusters in many regions, exactly once.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.core = core
    for router in (gco_info, gco_queue, fleet):
        app.include_router(router)
    errors.install(app)
    documentation.install(app)
    app.add_middleware(BodyLimit, limit=core.settings.max_body_bytes)
    app.add_middleware(Requests)
    return app

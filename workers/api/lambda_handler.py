"""The API on AWS Lambda, behind API Gateway. Clients are made once per container and live as long as it does."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache
from typing import Any

from mangum import Mangum

from shared.logging import configure
from shared.settings import Settings
from workers.api.app import create_app
from workers.api.cluster_access import ClusterAccess
from workers.api.core import open_core
from workers.api.following import WHOLE, Following

_stack = AsyncExitStack()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request."""
    answer: dict[str, Any] = _adapter()(event, context)
    return answer


@cache
def _adapter() -> Mangum:
    """The app over clients that belong to the container's one event loop, in which Mangum runs every request."""
    settings = Settings()
    if not settings.identity:
        settings = settings.model_copy(update={"identity": ("iam",)})
    configure(settings.log_level, worker="api")
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    access = ClusterAccess(settings)
    _stack.push_async_callback(access.close)
    core = loop.run_until_complete(_stack.enter_async_context(open_core(settings, access=access)))
    return Mangum(create_app(replace(core, following=Following(stretch=WHOLE))), lifespan="off")

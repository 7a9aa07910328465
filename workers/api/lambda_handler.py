"""The API on AWS Lambda, behind API Gateway. Clients are made once per container and live as long as it does."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import cache
from typing import Any, Final

from mangum import Mangum

from shared.logging import configure
from shared.settings import Settings
from workers.api.app import create_app
from workers.api.cluster_access import ClusterAccess
from workers.api.core import open_core
from workers.api.following import WHOLE, Following

LARGEST: Final = 6 * 1024 * 1024
"""The largest answer, as JSON: AWS Lambda Developer Guide, "Lambda quotas"."""

_stack = AsyncExitStack()


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request."""
    answer: dict[str, Any] = _adapter()(event, context)
    return _too_large(answer) if _is_too_large(answer) else answer


def _is_too_large(answer: dict[str, Any]) -> bool:
    """Whether Lambda would refuse it, and the caller learn nothing but that. Escapes count, so a log is measured as it is written."""
    if len(answer["body"]) <= LARGEST // 6:  # an escape has six characters at most
        return False
    return len(json.dumps(answer)) > LARGEST


def _too_large(answer: dict[str, Any]) -> dict[str, Any]:
    names = ("x-request-id", "cache-control")
    kept = {name: value for name, value in answer.get("headers", {}).items() if name.lower() in names}
    detail = (
        f"the answer has {len(answer['body'])} bytes, and Lambda gives {LARGEST} at most: ask for less, by tail or limit, or follow the log"
    )
    body = {"detail": detail, "request_id": kept.get("x-request-id")}
    return {
        "statusCode": 503,
        "headers": kept | {"content-type": "application/json"},
        "multiValueHeaders": {},
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


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

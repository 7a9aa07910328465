"""The API on AWS Lambda, behind API Gateway. Clients are made once per container and live as long as it does."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

from mangum import Mangum

from shared.settings import Settings
from workers.api.app import create_app
from workers.api.cluster_access import ClusterAccess
from workers.api.core import open_core
from workers.api.following import WHOLE, Following
from workers.lambdas import Container

LARGEST: Final = 6 * 1024 * 1024
"""The largest answer, as JSON: AWS Lambda Developer Guide, "Lambda quotas"."""


async def _start(settings: Settings, stack: AsyncExitStack) -> Mangum:
    """The app over clients that belong to the container's one event loop, in which Mangum runs every request."""
    if not settings.identity:
        settings = settings.model_copy(update={"identity": ("iam",)})
    access = ClusterAccess(settings)
    stack.push_async_callback(access.close)
    core = await stack.enter_async_context(open_core(settings, access=access))
    return Mangum(create_app(replace(core, following=Following(stretch=WHOLE))), lifespan="off")


container = Container(_start, worker="api")


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one request."""
    answer: dict[str, Any] = container.living()(event, context)
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

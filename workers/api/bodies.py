"""Request bodies, read as strictly as manifests are: what Python's JSON reader lets pass (keys that come twice, NaN) is refused here.

A large body is read in a thread: other requests don't wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from shared.clusters.json_documents import json_documents
from shared.clusters.trees import MAX_DEPTH, check_tree
from shared.errors import InvalidError, Problem

THREAD_BYTES = 64 * 1024
"""A body larger than this is parsed, and its manifest checked, in a thread: a few milliseconds are the most that a loop should be held."""
_ENVELOPE_LEVELS = 2
"""What stands around a manifest: the body, and the array of supporting objects."""


class BodyError(HTTPException):
    """A body that is no acceptable JSON. An HTTPException, since FastAPI turns any other into "There was an error parsing the body"."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__(status_code=422)


class StrictRequest(Request):
    """A request whose `json` refuses what Kubernetes could not store."""

    async def json(self) -> Any:
        """The body's one JSON value. Raises BodyError."""
        body = await self.body()
        try:
            if len(body) > THREAD_BYTES:
                return await asyncio.to_thread(load, body)
            return load(body)
        except InvalidError as invalid:
            raise BodyError(invalid.problems) from None


class StrictRoute(APIRoute):
    """A route that reads its body so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, given a strict request."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            if self.body_field is not None and not _is_json(request.headers.get("content-type", "")):
                rule = "the body must be JSON, sent as Content-Type: application/json"
                raise BodyError((Problem(pointer="", value=request.headers.get("content-type"), rule=rule),))
            return await handle(strict)

        return handle_strictly


def load(body: bytes) -> Any:
    """The one JSON value of a body. Raises InvalidError."""
    try:
        text = body.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        rule = f"the body must be UTF-8: byte {error.start} isn't"
        raise InvalidError([Problem(pointer="", value=body[error.start : error.start + 4], rule=rule)]) from None
    documents = json_documents(text, limit=1)
    if not documents:
        raise InvalidError([Problem(pointer="", value=None, rule="the body must not be empty")])
    check_tree(documents[0], max_depth=MAX_DEPTH + _ENVELOPE_LEVELS)
    return documents[0]


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))

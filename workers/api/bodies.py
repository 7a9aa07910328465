"""Request bodies, read as strictly as manifests are, instead of with what FastAPI would take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from shared.clusters.json_bodies import read_body
from shared.errors import InvalidError, Problem


class BodyError(HTTPException):
    """A body that is no acceptable JSON. An HTTPException, since FastAPI turns any other into "There was an error parsing the body"."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = problems
        super().__init__(status_code=422)


class StrictRequest(Request):
    """A request whose `json` refuses what Kubernetes could not store."""

    async def json(self) -> Any:
        """The body's one JSON value. Raises BodyError."""
        try:
            return await read_body(await self.body())
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


class JobRoute(StrictRoute):
    """A route whose body has a manifest: where other fields are wrong, what is wrong with the manifest is told with them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, which asks the policy before it gives up."""
        handle = super().get_route_handler()

        async def handle_and_look_on(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                further = await asyncio.to_thread(request.app.state.core.gate.further_problems, error.body)
                if not further:
                    raise
                raise RefusedBodyError(error, further) from None

        return handle_and_look_on


class RefusedBodyError(HTTPException):
    """A body with wrong fields and a manifest that the policy refuses."""

    def __init__(self, fields: RequestValidationError, problems: tuple[Problem, ...]) -> None:
        self.fields = fields
        self.problems = problems
        super().__init__(status_code=422)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))

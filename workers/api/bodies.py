"""Requests read as strictly as manifests are, instead of with what FastAPI would take: their bodies and the parameters of their queries.

All that is wrong with a request is told at once: a parameter that nobody knows, a field of a wrong type, and what the policy has against
the manifest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from shared.clusters.json_bodies import read_body
from shared.clusters.trees import step
from shared.errors import InvalidError, Problem
from workers.submitting import further_problems

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Endpoint = Callable[..., Coroutine[Any, Any, Any]]

_looking_only: ContextVar[bool] = ContextVar("looking_only", default=False)
"""Whether the request at hand is refused already, so that FastAPI is only to tell what else is wrong with it."""


class RefusedRequestError(HTTPException):
    """A request that breaks rules: of its query, of the fields that FastAPI knows, of its body.

    An HTTPException, since FastAPI turns any other that comes up while it reads a body into "There was an error parsing the body".
    """

    def __init__(
        self,
        *,
        query: Sequence[Problem] = (),
        fields: Sequence[Mapping[str, Any]] = (),
        body: Sequence[Problem] = (),
        kind: str = "value_error",
    ) -> None:
        self.query = tuple(query)
        self.fields = tuple(fields)
        self.body = tuple(body)
        self.kind = kind
        super().__init__(status_code=422)


class StrictRequest(Request):
    """A request whose `json` refuses what Kubernetes could not store."""

    async def json(self) -> Any:
        """The body's one JSON value. Raises RefusedRequestError."""
        try:
            return await read_body(await self.body())
        except InvalidError as invalid:
            raise RefusedRequestError(body=invalid.problems, kind="json_invalid") from None


class StrictRoute(APIRoute):
    """A route that reads its body so, and refuses parameters that it doesn't know, or that come more often than they mean anything."""

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        super().__init__(path, _guarded(endpoint), **options)

    def get_route_handler(self) -> Handler:
        """The route's handler, given a strict request."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            query = self._query_problems(request)
            looking = _looking_only.set(bool(query))
            try:
                self._check_content_type(request)
                return await handle(strict)
            except RefusedRequestError as refused:
                raise RefusedRequestError(query=query, fields=refused.fields, body=refused.body, kind=refused.kind) from None
            except RequestValidationError as error:
                further = await self.further(request, error.body, error.errors())
                raise RefusedRequestError(query=query, fields=error.errors(), body=further) from None
            except _NothingElseError:
                further = await self.further(request, await strict.json() if self.body_field is not None else None, ())
                raise RefusedRequestError(query=query, body=further) from None
            finally:
                _looking_only.reset(looking)

        return handle_strictly

    async def further(self, request: Request, document: Any, told: Iterable[Mapping[str, Any]]) -> Sequence[Problem]:
        """What else is wrong with the body of a request that is refused already; of most routes, nothing."""
        del request, document, told
        return ()

    def _query_problems(self, request: Request) -> list[Problem]:
        if not request.scope["query_string"]:
            return []
        known = sorted({field.alias for dependant in _with_dependencies(self.dependant) for field in dependant.query_params})
        rule = f"must be a parameter of this operation, which has {', '.join(known) or 'none'}"
        problems = []
        for name in dict.fromkeys(request.query_params):
            values = request.query_params.getlist(name)
            if name not in known:
                problems.append(Problem(pointer=step(name), value=values[0], rule=rule))
            elif len(values) > 1:
                problems.append(Problem(pointer=step(name), value=", ".join(values), rule="must be given once"))
        return problems

    def _check_content_type(self, request: Request) -> None:
        found = request.headers.get("content-type")
        if self.body_field is not None and not _is_json(found or ""):
            rule = "the body must be JSON, sent as Content-Type: application/json"
            raise RefusedRequestError(body=[Problem(pointer="", value=found, rule=rule)], kind="json_invalid")


class JobRoute(StrictRoute):
    """A route whose body has a manifest: where other fields are wrong, all that is wrong with the rest is told with them."""

    async def further(self, request: Request, document: Any, told: Iterable[Mapping[str, Any]]) -> Sequence[Problem]:
        """What the rules of submission have against the body."""
        core = request.app.state.core
        return await asyncio.to_thread(
            further_problems,
            core.submission,
            core.gate,
            document,
            told=["".join(step(part) for part in one["loc"][1:]) for one in told],
            idempotency_key=request.headers.get("idempotency-key"),
        )


class _NothingElseError(Exception):
    """FastAPI had nothing against a request."""


def _guarded(function: Endpoint) -> Endpoint:
    """A route's function, that isn't called when a request is refused already and the rest of it only looked at."""

    @wraps(function)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        if _looking_only.get():
            raise _NothingElseError
        return await function(*args, **kwargs)

    return guarded


def _with_dependencies(dependant: Any) -> Iterable[Any]:
    yield dependant
    for one in dependant.dependencies:
        yield from _with_dependencies(one)


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))

"""Errors of the core as HTTP. Every error body is `{"detail": …, "request_id": …}`.

`detail` is a text or, for input that breaks rules, all problems at once. A problem has the shape of FastAPI's own validation errors, so
that a client that reads those reads ours, and a JSON pointer besides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPMethod, HTTPStatus
from itertools import chain, islice
from typing import Annotated, Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from pydantic.json_schema import JsonSchemaMode, models_json_schema
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import Scope

from shared.clusters.errors import ApiError
from shared.clusters.trees import step
from shared.errors import (
    MAX_PROBLEMS,
    ConflictError,
    FleetError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    NotHereError,
    Problem,
    TooLargeError,
    UnavailableError,
    clean,
    cut,
)
from shared.jobs.changes import ContestedError
from shared.jobs.ports import LostError
from shared.rules import rule_of
from workers.api.bodies import RefusedRequestError
from workers.api.requests import refusal

log = structlog.get_logger()

_HEADERS = {"/idempotency_key": "Idempotency-Key", "/last_event_id": "Last-Event-ID"}
"""Where the core speaks of what comes in a header."""
_MAX_POINTER: Final = 2048
_MAX_RULE: Final = 2048
_BUSY = "the fleet is busy or a part of it does not answer; try again"


RequestId = Annotated[str, Field(pattern="^[0-9a-f]{32}$", description="As in the header X-Request-ID, and in the log.")]


class ErrorBody(BaseModel):
    """Why a request was not served."""

    detail: str
    request_id: RequestId


class ValidationProblem(BaseModel):
    """One rule that an input breaks."""

    type: str
    loc: list[str | int]
    msg: str
    input: Any = Field(default=None, description="What was found there; objects, arrays and long texts are left out.")
    pointer: str = Field(description="JSON pointer (RFC 6901) into the body, or the parameter's name after a slash.")
    ctx: dict[str, Any] | None = None


class ValidationBody(BaseModel):
    """All rules that an input breaks."""

    detail: list[ValidationProblem]
    request_id: RequestId


_REFERENCE: Final = "#/components/schemas/{model}"
_ANSWERS: dict[int, tuple[type[BaseModel], str]] = {
    400: (ErrorBody, "The request can't be served as it is"),
    401: (ErrorBody, "Nobody is known by these credentials"),
    403: (ErrorBody, "The caller has not the right for this, or the namespace is not allowed"),
    404: (ErrorBody, "No such thing"),
    409: (ErrorBody, "The thing is in a state that does not allow this"),
    413: (ErrorBody, "The body is too large"),
    422: (ValidationBody, "The input breaks rules: all of them, with their places"),
    429: (ErrorBody, "The caller asks too often; Retry-After says when to try again"),
    500: (ErrorBody, "Nobody expected this; the request id leads to the log"),
    502: (ErrorBody, "The cluster refused what it was asked"),
    503: (ErrorBody, "A part that is needed does not answer; Retry-After says when to try again"),
}


def answers(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The declarations of a route's error codes; 500 belongs to every route.

    The schemas are referred to (`schemas` defines them): FastAPI would make a validator for each code of each route, which nothing asks.
    """
    return {code: _declared(*_ANSWERS[code]) for code in (*codes, 500)}


def _declared(body: type[BaseModel], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(model=body.__name__)}}}}


def schemas() -> dict[str, Any]:
    """The schemas of all error bodies, by name, for the description of the API."""
    bodies: list[tuple[type[BaseModel], JsonSchemaMode]] = [(ErrorBody, "serialization"), (ValidationBody, "serialization")]
    _, document = models_json_schema(bodies, ref_template=_REFERENCE)
    found: dict[str, Any] = document["$defs"]
    return found


def install(app: FastAPI) -> None:
    """Answer the core's errors, and FastAPI's own, in one shape."""

    @app.exception_handler(FleetError)
    async def _fleet(request: Request, error: FleetError) -> JSONResponse:
        return answer(request.scope, error)

    @app.exception_handler(RefusedRequestError)
    async def _refused(request: Request, error: RefusedRequestError) -> JSONResponse:
        outside = chain(_all_told(error.sent_headers, "header"), _all_told(error.query, "query"))
        told = chain(outside, map(_from_fastapi, error.fields), _all_told(error.body, "body", error.kind))
        return _invalid(request.scope, told, count=sum(map(len, (error.sent_headers, error.query, error.fields, error.body))))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        detail, headers = error.detail, dict(error.headers or {})
        if error.status_code == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
            detail = f"Not Found: there is nothing at {cut(request.url.path)}"
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_allowed(app, request.scope))
            detail = f"Method Not Allowed: {cut(request.url.path)} takes {headers['Allow']}"
        return refusal(request.scope, error.status_code, detail, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def _fields(request: Request, error: RequestValidationError) -> JSONResponse:
        return _invalid(request.scope, map(_from_fastapi, error.errors()), count=len(error.errors()))


def answer(scope: Scope, error: FleetError) -> JSONResponse:
    """The answer that an error of the core means. Raises it where nobody expected it."""
    match error:
        case InvalidError():
            place = "body" if scope["method"] in {"POST", "PUT", "PATCH"} else "query"
            return _invalid(scope, _all_told(error.problems, place), count=len(error.problems))
        case TooLargeError():
            limits = {"ctx": {"size": error.size, "limit": error.limit}}
            told = (one | limits for one in _all_told(error.problems, "body", "too_large"))
            return _invalid(scope, told, count=len(error.problems))
        case ForbiddenError():
            return refusal(scope, HTTPStatus.FORBIDDEN, str(error))
        case NotFoundError():
            return refusal(scope, HTTPStatus.NOT_FOUND, str(error))
        case ConflictError():
            return refusal(scope, HTTPStatus.CONFLICT, str(error))
        case NotHereError():
            return _unavailable(scope, str(error), error.retry_after or 60)
        case ApiError():
            return refusal(scope, HTTPStatus.BAD_GATEWAY, str(error))
        case UnavailableError():
            log.warning("unavailable", error=str(error))
            return _unavailable(scope, _BUSY, error.retry_after)
        case ContestedError() | LostError():
            log.warning("contested", error=str(error))
            return _unavailable(scope, _BUSY)
        case _:
            raise error


def _unavailable(scope: Scope, detail: str, retry_after: float | None = None) -> JSONResponse:
    return refusal(scope, HTTPStatus.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": str(math.ceil(retry_after or 1))})


def _invalid(scope: Scope, problems: Iterable[Mapping[str, Any]], *, count: int) -> JSONResponse:
    """The first hundred of so many problems, made when they are told, and how many more there are."""
    told = list(islice(problems, MAX_PROBLEMS))
    if (more := count - len(told)) > 0:
        rule = f"and {more} more problems, which are not told one by one"
        told.append(
            {"type": "too_many_problems", "loc": told[-1]["loc"][:1], "msg": rule, "input": None, "pointer": "", "ctx": {"more": more}}
        )
    return refusal(scope, HTTPStatus.UNPROCESSABLE_ENTITY, told)


def _allowed(app: FastAPI, scope: Scope) -> list[str]:
    """The methods that a path takes, whichever routes they are in (RFC 9110, section 10.2.1)."""
    asked = {"type": "http", "path": scope["path"], "root_path": scope.get("root_path", ""), "headers": []}
    found = [one for one in HTTPMethod if any(route.matches({**asked, "method": one})[0] is Match.FULL for route in app.router.routes)]
    return sorted({*found, *([HTTPMethod.HEAD] if HTTPMethod.GET in found else [])})


def _all_told(problems: Sequence[Problem], place: str, kind: str = "value_error") -> Iterable[dict[str, Any]]:
    return (_told(problem, place, kind) for problem in problems)


def _told(problem: Problem, place: str, kind: str) -> dict[str, Any]:
    header = _HEADERS.get(problem.pointer)
    where, pointer = ("header", step(header)) if header else (place, _near(clean(problem.pointer)))
    return {"type": kind, "loc": [where, *_steps(pointer)], "msg": cut(problem.rule, _MAX_RULE), "input": problem.told, "pointer": pointer}


def _from_fastapi(error: Mapping[str, Any]) -> dict[str, Any]:
    place, *loc = [part if isinstance(part, int) else clean(str(part)) for part in error["loc"]]
    pointer = "".join(map(step, loc))
    if len(pointer) > _MAX_POINTER:
        pointer = _near(pointer)
        loc = _steps(pointer)
    told = Problem(pointer=pointer, value=error.get("input"), rule=cut(rule_of(error), _MAX_RULE))
    return {"type": error["type"], "loc": [place, *loc], "msg": told.rule, "input": told.told, "pointer": pointer}


def _near(pointer: str) -> str:
    """The pointer, or one to what is around its place where it is longer than anybody reads: keys may be long, and depths great."""
    return pointer if len(pointer) <= _MAX_POINTER else pointer[:_MAX_POINTER].rpartition("/")[0]


def _steps(pointer: str) -> list[str | int]:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return [int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part for part in parts]

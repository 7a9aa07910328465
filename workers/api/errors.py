"""Errors of the core as HTTP. Every error body is `{"detail": …}`: a text, or, for input that breaks rules, all problems at once.

A problem has the shape of FastAPI's own validation errors, so that a client that reads those reads ours, and a JSON pointer besides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from shared.clusters.trees import step
from shared.errors import (
    ConflictError,
    FleetError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    Problem,
    TooLargeError,
    UnavailableError,
)
from shared.jobs.changes import ContestedError
from shared.jobs.ports import LostError
from workers.api.bodies import BodyError, RefusedBodyError

log = structlog.get_logger()

_SHOWN = 120
_HEADERS = {"/idempotency_key": ("header", "Idempotency-Key")}
_BUSY = "the fleet is busy or a part of it does not answer; try again"


class ErrorBody(BaseModel):
    """Why a request was not served."""

    detail: str


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


_ANSWERS: dict[int, tuple[type[BaseModel], str]] = {
    403: (ErrorBody, "The namespace is not allowed"),
    404: (ErrorBody, "No such thing"),
    409: (ErrorBody, "The thing is in a state that does not allow this"),
    413: (ErrorBody, "The body is too large"),
    422: (ValidationBody, "The input breaks rules: all of them, with their places"),
    500: (ErrorBody, "Nobody expected this; the request id leads to the log"),
    503: (ErrorBody, "A part that is needed does not answer; Retry-After says when to try again"),
}


def answers(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The declarations of a route's error codes; 500 belongs to every route."""
    return {code: {"model": _ANSWERS[code][0], "description": _ANSWERS[code][1]} for code in (*codes, 500)}


def install(app: FastAPI) -> None:
    """Answer the core's errors, and FastAPI's own, in one shape."""

    @app.exception_handler(FleetError)
    async def _fleet(request: Request, error: FleetError) -> JSONResponse:
        return _answer(request, error)

    @app.exception_handler(BodyError)
    async def _body(_: Request, error: BodyError) -> JSONResponse:
        return _invalid(_told(problem, ("body",), "json_invalid") for problem in error.problems)

    @app.exception_handler(RefusedBodyError)
    async def _refused(_: Request, error: RefusedBodyError) -> JSONResponse:
        told = [_told(problem, ("body",), "value_error") for problem in error.problems]
        return _invalid([*map(_from_fastapi, error.fields.errors()), *told])

    @app.exception_handler(RequestValidationError)
    async def _fields(_: Request, error: RequestValidationError) -> JSONResponse:
        return _invalid(_from_fastapi(one) for one in error.errors())


def _answer(request: Request, error: FleetError) -> JSONResponse:
    match error:
        case InvalidError():
            place = "body" if request.method in {"POST", "PUT", "PATCH"} else "query"
            return _invalid(_told(problem, (place,), "value_error") for problem in error.problems)
        case TooLargeError():
            found = re.search(r"(/\S+)$", error.what)
            pointer = found.group(1) if found else "/manifest"
            problem = Problem(pointer=pointer, value=None, rule=str(error))
            return _invalid([_told(problem, ("body",), "too_large") | {"ctx": {"size": error.size, "limit": error.limit}}])
        case ForbiddenError():
            return _text(HTTPStatus.FORBIDDEN, str(error))
        case NotFoundError():
            return _text(HTTPStatus.NOT_FOUND, str(error))
        case ConflictError():
            return _text(HTTPStatus.CONFLICT, str(error))
        case UnavailableError():
            log.warning("unavailable", error=str(error))
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY, retry_after=error.retry_after)
        case ContestedError() | LostError():
            log.warning("contested", error=str(error))
            return _text(HTTPStatus.SERVICE_UNAVAILABLE, _BUSY)
        case _:
            raise error


def _text(status: HTTPStatus, detail: str, *, retry_after: float | None = None) -> JSONResponse:
    headers = {"Retry-After": str(math.ceil(retry_after or 1))} if status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return JSONResponse({"detail": detail}, status_code=status, headers=headers)


def _invalid(problems: Iterable[Mapping[str, Any]]) -> JSONResponse:
    return JSONResponse({"detail": list(problems)}, status_code=HTTPStatus.UNPROCESSABLE_ENTITY)


def _told(problem: Problem, place: tuple[str, ...], kind: str) -> dict[str, Any]:
    where = _HEADERS.get(problem.pointer) or (*place, *_steps(problem.pointer))
    return {
        "type": kind,
        "loc": list(where),
        "msg": _clean(problem.rule),
        "input": _shown(problem.value),
        "pointer": _clean(problem.pointer),
    }


def _from_fastapi(error: Mapping[str, Any]) -> dict[str, Any]:
    loc = [part if isinstance(part, int) else _clean(str(part)) for part in error["loc"]]
    return {
        "type": error["type"],
        "loc": loc,
        "msg": error["msg"],
        "input": _shown(error.get("input")),
        "pointer": "".join(step(part) for part in loc[1:]),
    }


def _steps(pointer: str) -> list[str | int]:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return [int(part) if part.isascii() and part.isdigit() and len(part) < 10 else _clean(part) for part in parts]


def _shown(value: Any) -> Any:
    """A short value as it is; nothing of a long or composed one, which may hold secrets and which its sender knows."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _clean(value if len(value) <= _SHOWN else f"{value[: _SHOWN - 3]}...")
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return None


def _clean(text: str) -> str:
    """Without lone surrogates, which no answer could carry."""
    return text.encode(errors="replace").decode()

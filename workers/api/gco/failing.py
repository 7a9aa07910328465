"""Failures that the original tells in the shape of its success, with `detail` and `request_id` besides, as every other error has them."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from workers.api.errors import ErrorBody
from workers.api.requests import request_id


def failed(request: Request, told: BaseModel, shape: type[ErrorBody], errors: Sequence[str]) -> JSONResponse:
    """A 400 that says all that `told` does, in a shape that has these fields too; its detail is the first of the errors."""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    body = shape(**told.model_dump(), detail=errors[0] + more, request_id=request_id(request.scope))
    return JSONResponse(body.model_dump(mode="json"), status_code=HTTPStatus.BAD_REQUEST)

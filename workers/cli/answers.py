"""From an error answer of the API to an error of the command: whatever a door tells of faults becomes lines of field, value, rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from workers.cli.failures import CommandError, ExitCode, Fault, shown

_CODES = {
    HTTPStatus.UNAUTHORIZED: ExitCode.UNKNOWN_CALLER,
    HTTPStatus.NOT_FOUND: ExitCode.NOT_FOUND,
    HTTPStatus.CONFLICT: ExitCode.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS: ExitCode.UNREACHABLE,
    HTTPStatus.BAD_GATEWAY: ExitCode.UNREACHABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: ExitCode.UNREACHABLE,
    HTTPStatus.GATEWAY_TIMEOUT: ExitCode.UNREACHABLE,
}


_NO_SUCH_ROUTE = "Not Found"
"""How our API, and any server of the same framework, begins to say that it has no such path; a thing that is missing is named first."""


def error_of(status: int, body: bytes, *, api: str, options_only: bool = True) -> CommandError:
    """The error that an answer other than a success tells of.

    Where nothing but options was sent, what breaks a rule is bad usage; a job, say, can be refused.
    """
    code = next((found for known, found in _CODES.items() if known == status), ExitCode.FAILED)
    if options_only and status in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}:
        code = ExitCode.USAGE
    try:
        document: Any = json.loads(body)
    except (ValueError, RecursionError):
        if code is ExitCode.UNREACHABLE:  # a proxy's own page
            return CommandError(f"{api} answered {status} {HTTPStatus(status).phrase}", code=code)
        return no_fleet(api, f"it answered {status} with something else than JSON")
    if status == HTTPStatus.NOT_FOUND and not _names_a_thing(document):
        return no_fleet(api, "it answered 404: no such path")
    faults = _faults(document)
    message = _message(status, document, faults)
    if status == HTTPStatus.UNAUTHORIZED:
        message = f"{message} (--key or GPUFLEET_KEY gives one; gpufleet keys create makes one)"
    return CommandError(message, code=code, faults=faults)


def no_fleet(api: str, why: str) -> CommandError:
    """The error that tells of an answer which no gpufleet gives."""
    return CommandError(f"{api}: this is not a gpufleet API: {why}; --api or GPUFLEET_API names the right one", code=ExitCode.UNREACHABLE)


def _names_a_thing(document: Any) -> bool:
    detail = document.get("detail") if isinstance(document, Mapping) else None
    return isinstance(detail, str) and not detail.startswith(_NO_SUCH_ROUTE)


def _message(status: int, document: Any, faults: list[Fault]) -> str:
    if isinstance(document, Mapping):
        detail = document.get("detail", document.get("message", document.get("error")))
        if isinstance(detail, str) and not faults:
            return detail
    count = f"{len(faults)} fault{'s' if len(faults) != 1 else ''}"
    return f"refused ({status}): {count}" if faults else f"the API answered {status}: {json.dumps(document)[:500]}"


def _faults(document: Any) -> list[Fault]:
    if not isinstance(document, Mapping):
        return []
    for name in ("problems", "errors", "detail"):
        found = document.get(name)
        if isinstance(found, list) and found:
            return [_fault(one) for one in found]
    detail = document.get("detail")
    return _faults(detail) if isinstance(detail, Mapping) else []


def _fault(one: Any) -> Fault:
    if not isinstance(one, Mapping):
        return Fault("", "", str(one))
    field = one.get("pointer", one.get("field"))
    if field is None:  # pydantic's own: a path beginning with where the value was found
        parts = [str(part) for part in one.get("loc", ())]
        field = "/" + "/".join(parts[1:] if parts[:1] == ["body"] else parts)
    value = one.get("value", one.get("input"))
    rule = str(one.get("rule", one.get("msg", one.get("message", ""))))
    return Fault(str(field) or "/", shown(value), rule)

"""From an error answer of the API to an error of the command: whatever a door tells of faults becomes lines of field, value, rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from workers.cli.failures import CommandError, ExitCode, Fault

_LONGEST_VALUE = 120

_CODES = {
    HTTPStatus.NOT_FOUND: ExitCode.NOT_FOUND,
    HTTPStatus.CONFLICT: ExitCode.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS: ExitCode.UNREACHABLE,
    HTTPStatus.BAD_GATEWAY: ExitCode.UNREACHABLE,
    HTTPStatus.SERVICE_UNAVAILABLE: ExitCode.UNREACHABLE,
    HTTPStatus.GATEWAY_TIMEOUT: ExitCode.UNREACHABLE,
}


def error_of(status: int, body: bytes) -> CommandError:
    """The error that an answer of 400 or more tells of."""
    code = next((found for known, found in _CODES.items() if known == status), ExitCode.FAILED)
    try:
        document: Any = json.loads(body)
    except ValueError:
        text = body.decode(errors="replace").strip()
        return CommandError(f"the API answered {status}: {text[:500] or '(empty)'}", code=code)
    faults = _faults(document)
    return CommandError(_message(status, document, faults), code=code, faults=faults)


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
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
    rule = str(one.get("rule", one.get("msg", one.get("message", ""))))
    return Fault(str(field) or "/", text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}...", rule)

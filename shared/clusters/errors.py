"""What an API server may answer instead of what was asked, as errors of ours.

The rest of the fleet asks one question of a failure: does it pass with time (UnavailableError) or never (RefusedError)? What lies
between, a missing object or a name that is taken, is an error here that the caller in this package resolves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from shared.errors import FleetError, UnavailableError
from shared.jobs.ports import RefusedError

LONGEST_MESSAGE: Final = 500
LONGEST_WAIT: Final = 300.0
"""Seconds; an API server or a proxy that asks for more is asked again after this."""

_UNDECLARED: Final = "failed to create typed patch object"
"""Server-side apply of a field that the cluster doesn't know is answered with a 500, though the same is answered for ever.
https://github.com/kubernetes/kubernetes/issues/122480"""
_SHORTENED: Final = (
    (re.compile(r"( value: )[\w.\[\]*&]*\{.*\}", re.DOTALL), r"\1{…}"),
    (re.compile(r'( value: )"(?:[^"\\]|\\.){65,}"'), r'\1"…"'),
)
"""Validation messages print the value that they complain of, at worst a whole pod template with the values of its environment."""


class ApiError(FleetError):
    """The API server answered with an error; `code` is the HTTP status, `reason` the machine-readable word of its Status."""

    def __init__(self, message: str, *, code: int, reason: str = "") -> None:
        self.code = code
        self.reason = reason
        super().__init__(message)


class MissingError(ApiError):
    """404: the object, its namespace or its kind isn't there."""


class TakenError(ApiError):
    """409: the name is taken, a precondition doesn't hold, or somebody else wrote at the same time; `reason` tells which."""


class ExpiredError(ApiError):
    """410: history doesn't reach back to the resource version or the page that was asked for."""


class RejectedError(ApiError, RefusedError):
    """Any other 4xx: asking again would get the same answer."""


class ThrottledError(UnavailableError):
    """429: nothing was done, the server asks to come again later."""


class QuotaError(UnavailableError):
    """403 of a ResourceQuota that is used up at present: nothing was done, and it passes when others end."""


class UnauthorizedError(UnavailableError):
    """401: our own credentials are wrong or have expired. That says nothing about the object, so no job may fail of it."""


NOTHING_DONE: Final = (ThrottledError, QuotaError, UnauthorizedError)
"""After these the outcome isn't open: the request was turned away before it could change anything."""


def failure(what: str, status: int, headers: Mapping[str, str], body: bytes, *, now: datetime) -> FleetError:
    """The error that an answer of 300 and above stands for; `what` says in a few words what was asked."""
    document = _document(body)
    return status_failure(what, document, code=status, retry_after=_retry_after(headers, document, now))


def status_failure(what: str, document: Mapping[str, Any], *, code: int | None = None, retry_after: float | None = None) -> FleetError:
    """The error that a `Status` stands for, be it the body of an answer or the object of a watch's ERROR event."""
    code = code if code is not None else int(document.get("code") or 500)
    reason = str(document.get("reason") or "")
    message = f"{what}: {_words(document) or f'HTTP {code}'}"
    match code:
        case 401:
            return UnauthorizedError(message, retry_after=retry_after)
        case 403 if "exceeded quota" in message:
            return QuotaError(message, retry_after=retry_after)
        case 404:
            return MissingError(message, code=code, reason=reason)
        case 409:
            return TakenError(message, code=code, reason=reason)
        case 410:
            return ExpiredError(message, code=code, reason=reason)
        case 500 if _UNDECLARED in message:
            return RejectedError(message, code=code, reason=reason)
        case 429:
            return ThrottledError(message, retry_after=retry_after)
        case _ if 400 <= code < 500 and code != 408:
            return RejectedError(message, code=code, reason=reason)
        case _:
            return UnavailableError(message, retry_after=retry_after)


def _document(body: bytes) -> Mapping[str, Any]:
    """A proxy between us and the API server may answer with a page of its own, which says nothing that we could use."""
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) and document.get("kind") == "Status" else {}


def _words(document: Mapping[str, Any]) -> str:
    """The server's message without values that are long or secret, of at most 500 characters."""
    details = document.get("details")
    if isinstance(details, dict) and str(details.get("kind", "")).lower() in {"secret", "secrets"}:
        return f"{details.get('kind')} {details.get('name')}: {document.get('reason')}"
    message = str(document.get("message") or "")
    for pattern, short in _SHORTENED:
        message = pattern.sub(short, message)
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…"


def _retry_after(headers: Mapping[str, str], document: Mapping[str, Any], now: datetime) -> float | None:
    """Seconds from now, by the header (RFC 9110: seconds or a date) or the Status; None where neither says so or makes sense."""
    asked = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    details = document.get("details")
    if asked is None and isinstance(details, dict):
        asked = details.get("retryAfterSeconds")
    if asked is None:
        return None
    try:
        seconds = float(asked)
    except ValueError:
        try:
            moment = parsedate_to_datetime(str(asked))
        except ValueError:
            return None
        seconds = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    return min(max(seconds, 0.0), LONGEST_WAIT)

"""Who is calling: asked once for each request, before its body is read, and before anybody is told what there is."""

from __future__ import annotations

import math
from functools import partial
from http import HTTPStatus
from typing import Final, Protocol

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.errors import FleetError, UnavailableError
from shared.identity.callers import LOCAL, Caller
from shared.identity.sources import Authentication, IdentitySource, Presented, UnknownCallerError
from workers.api.core import Core
from workers.api.errors import answer
from workers.api.requests import refusal

OPEN: Final = frozenset({"/healthz", "/readyz", "/metrics", "/api/v1/health", "/docs", "/openapi.json"})
"""What anybody may ask, as in the original, and the description of the API, which says nothing of an installation."""
_OPEN_FILES: Final = "/docs/files/"


def authentication(core: Core) -> Authentication | None:
    """The sources that the settings name; None where they name none, and everybody is the local administrator."""
    if not core.settings.identity:
        return None
    return Authentication([_source(name, core) for name in core.settings.identity])


def _source(name: str, core: Core) -> IdentitySource:
    match name:
        case "keys":
            from shared.identity.keys import KeySource

            return KeySource(core.api_keys, core.clock)
        case "iam":
            from shared.identity.iam import IamSource

            return IamSource()
        case "jwt":
            from shared.identity.tokens import TokenSource

            return TokenSource()
    raise ValueError(f"no identity source is called {name}")


class Guesses(Protocol):
    """Keeps an address from trying credentials in bulk."""

    async def refused(self, scope: Scope, presented: Presented) -> float | None:
        """For how many seconds no more credentials are looked at; None where they are."""
        ...

    async def note(self, scope: Scope, presented: Presented, *, right: bool) -> None:
        """Credentials were right, or wrong."""
        ...


class Identity:
    """Pure ASGI: puts the caller into the request's state, or answers 401."""

    def __init__(self, app: ASGIApp, *, authentication: Authentication | None, guesses: Guesses | None = None) -> None:
        self._app = app
        self._authentication = authentication
        self._guesses = guesses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of a known caller, or one that anybody may ask."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        if self._authentication is None:
            state["caller"] = LOCAL
        elif not is_open(scope["path"]):
            try:
                state["caller"] = caller = await self._known(scope, self._authentication)
                state["caller_check"] = partial(_still, scope, self._authentication, caller)
            except _RefusedError as refused:
                await refused.answer(scope, receive, send)
                return
            except FleetError as error:
                await answer(scope, error)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _known(self, scope: Scope, authentication: Authentication) -> Caller:
        """Raises _RefusedError, UnavailableError."""
        presented = _presented(scope)
        try:
            if self._guesses is not None and (seconds := await self._guesses.refused(scope, presented)) is not None:
                raise _RefusedError(_too_many(scope, seconds))
            caller = await authentication.caller(presented)
        except UnknownCallerError as unknown:
            if unknown.wrong and self._guesses is not None:
                await self._guesses.note(scope, presented, right=False)
            raise _RefusedError(_unknown(scope, unknown)) from None
        if self._guesses is not None:
            await self._guesses.note(scope, presented, right=True)
        return caller


async def _still(scope: Scope, authentication: Authentication, caller: Caller) -> bool:
    """Whether a request would still come of this caller, with the same rights. It would while that can't be told."""
    try:
        return await authentication.caller(_presented(scope)) == caller
    except UnknownCallerError:
        return False
    except UnavailableError:
        return True


class _RefusedError(Exception):
    """A request is answered without being served."""

    def __init__(self, answer: JSONResponse) -> None:
        self.answer = answer
        super().__init__(answer.status_code)


def _unknown(scope: Scope, unknown: UnknownCallerError) -> JSONResponse:
    challenge = 'Bearer error="invalid_token"' if unknown.wrong else "Bearer"  # RFC 6750, section 3
    return refusal(scope, HTTPStatus.UNAUTHORIZED, str(unknown), headers={"WWW-Authenticate": challenge})


def _too_many(scope: Scope, seconds: float) -> JSONResponse:
    detail = "too many wrong credentials came from this address; try again later"
    return refusal(scope, HTTPStatus.TOO_MANY_REQUESTS, detail, headers={"Retry-After": str(math.ceil(seconds))})


def is_open(path: str) -> bool:
    """Whether a path needs no caller."""
    return path in OPEN or path.startswith(_OPEN_FILES)


def _presented(scope: Scope) -> Presented:
    """What a request carries. Several headers of that name are read as HTTP reads them, as one list, which no source knows."""
    found = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
    return Presented(authorization=", ".join(found) if found else None, aws_event=scope.get("aws.event"))

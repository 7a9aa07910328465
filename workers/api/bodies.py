"""Requests read as strictly as manifests are, instead of with what FastAPI would take: their bodies and the parameters of their queries.

All that is wrong with a request is told at once: a parameter that nobody knows, a field of a wrong type, and what the policy has against
the manifest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import ContextVar
from email.message import Message
from functools import wraps
from typing import Any, Final

from fastapi import HTTPException, Request, Response
from fastapi._compat import field_annotation_is_sequence
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from shared.clusters.json_bodies import read_body
from shared.clusters.trees import step, text_rule
from shared.errors import MAX_PROBLEMS, InvalidError, Problem, cut
from workers.submitting import further_problems

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Endpoint = Callable[..., Coroutine[Any, Any, Any]]

_CHARSETS: Final = frozenset({"utf-8", "utf8", "us-ascii"})
"""What may be said of a body that is read as UTF-8 (RFC 8259, section 8.1)."""

_looking_only: ContextVar[bool] = ContextVar("looking_only", default=False)
"""Whether the request at hand is refused already, so that FastAPI is only to tell what else is wrong with it."""


class RefusedRequestError(HTTPException):
    """A request that breaks rules: of its headers and its query, of the fields that FastAPI knows, of its body.

    An HTTPException, since FastAPI turns any other that comes up while it reads a body into "There was an error parsing the body".
    """

    def __init__(
        self,
        *,
        headers: Sequence[Problem] = (),
        query: Sequence[Problem] = (),
        fields: Sequence[Mapping[str, Any]] = (),
        body: Sequence[Problem] = (),
        kind: str = "value_error",
    ) -> None:
        self.sent_headers = tuple(headers)
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
            headers, query = self._header_problems(strict), self._query_problems(strict)
            looking = _looking_only.set(bool(headers or query))
            try:
                self._check_content_type(strict)
                return await handle(strict)
            except RefusedRequestError as refused:
                told = (*headers, *refused.sent_headers)
                raise RefusedRequestError(headers=told, query=query, fields=refused.fields, body=refused.body, kind=refused.kind) from None
            except RequestValidationError as error:
                further = await self.further(request, error.body, error.errors())
                fields = [one for one in error.errors() if _place(one) not in {problem.pointer for problem in query}]
                raise RefusedRequestError(headers=headers, query=query, fields=fields, body=further) from None
            except _NothingElseError:
                further = await self.further(request, await strict.json() if self.body_field is not None else None, ())
                raise RefusedRequestError(headers=headers, query=query, body=further) from None
            finally:
                _looking_only.reset(looking)

        return handle_strictly

    async def further(self, request: Request, document: Any, told: Iterable[Mapping[str, Any]]) -> Sequence[Problem]:
        """What else is wrong with the body of a request that is refused already; of most routes, nothing."""
        del request, document, told
        return ()

    def _header_problems(self, request: Request) -> list[Problem]:
        """What is wrong with the headers that the operation has: the same rules as for parameters of the query."""
        problems = []
        for field in (field for dependant in _with_dependencies(self.dependant) for field in dependant.header_params):
            values = request.headers.getlist(field.alias)
            if values and (rule := _rule_against(values, several=field_annotation_is_sequence(field.field_info.annotation))):
                problems.append(Problem(pointer=step(field.alias), value=", ".join(values), rule=rule))
        return problems

    def _query_problems(self, request: Request) -> list[Problem]:
        if not request.scope["query_string"]:
            return []
        known = sorted({field.alias for dependant in _with_dependencies(self.dependant) for field in dependant.query_params})
        given: dict[str, list[str]] = {}
        for name, value in request.query_params.multi_items():
            given.setdefault(name, []).append(value)
        if len(given) > MAX_PROBLEMS:
            return [Problem(pointer="", value=None, rule=f"must have at most {MAX_PROBLEMS} parameters, and has {len(given)}")]
        unknown = f"must be a parameter of this operation, which has {', '.join(known) or 'none'}"
        problems = []
        for name, values in given.items():
            if (rule := _rule_against(values) if name in known else unknown) is not None:
                problems.append(Problem(pointer=step(cut(name)), value=", ".join(values) if name in known else values[0], rule=rule))
        return problems

    def _check_content_type(self, request: Request) -> None:
        if self.body_field is None or not (self.body_field.field_info.is_required() or _has_body(request)):
            return
        found = request.headers.getlist("content-type")
        if rule := _content_type_rule(found):
            problem = Problem(pointer="/Content-Type", value=", ".join(found) or None, rule=rule)
            raise RefusedRequestError(headers=[problem], kind="json_invalid")


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
            told=[_place(one) for one in told],
            idempotency_key=request.headers.get("idempotency-key"),
        )


class _NothingElseError(Exception):
    """FastAPI had nothing against a request."""


def _place(error: Mapping[str, Any]) -> str:
    """The pointer of what FastAPI has something against."""
    return "".join(step(part) for part in error["loc"][1:])


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


def _rule_against(values: Sequence[str], *, several: bool = False) -> str | None:
    """The rule that the texts of one parameter or header break; most of them mean something only once."""
    if len(values) > 1 and not several:
        return "must be given once"
    return next(filter(None, map(text_rule, values)), None)


def _has_body(request: Request) -> bool:
    """Whether a body comes with it (RFC 9112, section 6.3)."""
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"


def _content_type_rule(values: Sequence[str]) -> str | None:
    if len(values) > 1:
        return "must be given once"
    header = Message()
    header["Content-Type"] = values[0] if values else ""
    kind = header.get_content_type()
    if not values or not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
        return "the body must be JSON, sent as Content-Type: application/json"
    if (header.get_content_charset() or "utf-8") not in _CHARSETS:
        return "the body must be UTF-8, as all JSON is: Content-Type: application/json"
    return None

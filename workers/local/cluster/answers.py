"""What goes back to a client: whole responses, streams, and refusals in the API server's own `Status` form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.errors import FleetError
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import to_json

JSON = {"Content-Type": "application/json"}
WATCH = {"Content-Type": "application/json;stream=watch"}
TEXT = {"Content-Type": "text/plain"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """A whole answer; `body` is what goes over the wire."""

    status: int
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    body: bytes = b""


class Stream:
    """An answer that grows: a watch or a followed log.

    A driver takes what is there, and is called back when there is more. It ends when `closed` is true and `take` gave
    nothing; where it is `broken` by then, the connection breaks instead. A driver whose client went away calls `close`.
    """

    status = 200
    broken = False

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.closed = False
        self._lines: list[bytes] = []
        self._callbacks: list[Callable[[], None]] = []

    def take(self) -> list[bytes]:
        """Everything that came since the last call; each element is one line with its end."""
        lines, self._lines = self._lines, []
        return lines

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call `callback` when there is something to take, or the stream has closed. It must not raise nor block."""
        self._callbacks.append(callback)

    def push(self, line: bytes) -> None:
        """Add a line, unless the stream has ended."""
        if self.closed:
            return
        self._lines.append(line)
        self._wake()

    def close(self) -> None:
        """End the stream; what was pushed can still be taken."""
        if not self.closed:
            self.closed = True
            self._wake()

    def _wake(self) -> None:
        for callback in self._callbacks:
            callback()


class RefusedError(FleetError):
    """A request that the API server refuses; carries the fields of its `Status` body."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        self.code = code
        self.reason = reason
        self.details = dict(details or {})
        self.retry_after = retry_after
        super().__init__(message)

    def status(self) -> dict[str, Any]:
        """The `Status` object."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            **({"details": self.details} if self.details else {}),
            "code": self.code,
        }

    def response(self) -> Response:
        """The whole answer."""
        headers = dict(JSON)
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        return Response(status=self.code, headers=headers, body=to_json(self.status()))


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """One reason why an object is invalid; `field` is a path such as `spec.template.spec.containers[0].image`."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def _about(kind: Kind, name: str) -> dict[str, Any]:
    return {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}


def not_found(kind: Kind, name: str) -> RefusedError:
    """404 for an object."""
    return RefusedError(404, "NotFound", f'{kind.resource} "{name}" not found', details=_about(kind, name))


def no_such_path() -> RefusedError:
    """404 for a path that nothing is served at."""
    return RefusedError(404, "NotFound", "the server could not find the requested resource")


def already_exists(kind: Kind, name: str) -> RefusedError:
    """409 for a create of a name that is taken."""
    return RefusedError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', details=_about(kind, name))


def conflict(kind: Kind, name: str, why: str) -> RefusedError:
    """409 for a precondition that does not hold."""
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return RefusedError(409, "Conflict", message, details=_about(kind, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def invalid(kind: Kind, name: str, causes: Iterable[Cause]) -> RefusedError:
    """422 with one cause for every fault."""
    listed = list(causes)
    texts = [f"{cause.field}: {cause.message}" for cause in listed]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {
        **_about(kind, name),
        "kind": kind.kind,
        "causes": [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in listed],
    }
    return RefusedError(422, "Invalid", f'{kind.qualified} "{name}" is invalid: {text}', details=details)


def bad_request(message: str) -> RefusedError:
    """400."""
    return RefusedError(400, "BadRequest", message)


def expired(message: str) -> RefusedError:
    """410 for a resource version or a continue token that history no longer reaches."""
    return RefusedError(410, "Expired", message)


def too_large(message: str) -> RefusedError:
    """413."""
    return RefusedError(413, "RequestEntityTooLarge", message)


def unreadable(message: str) -> RefusedError:
    """415: the body is in a format that isn't read."""
    return RefusedError(415, "UnsupportedMediaType", message)


def not_allowed() -> RefusedError:
    """405."""
    return RefusedError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

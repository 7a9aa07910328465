"""Every error that the fleet raises on purpose: one root, and the data of each error as attributes.

A door translates these into its own wire form; nothing else needs to know HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One fault in an input: where it is, what stands there, and the rule that it breaks.

    `pointer` is a JSON pointer (RFC 6901) into the document that was sent, such as `/manifest/spec/template`.
    `value` is what was found there, cut to a readable length by `shown`.
    `rule` is one sentence that says what is right.
    """

    pointer: str
    value: Any
    rule: str

    @property
    def shown(self) -> str:
        """The value as text of at most 120 characters, so that a large or secret input doesn't reach a log whole."""
        text = repr(self.value)
        return text if len(text) <= 120 else f"{text[:117]}..."

    def __str__(self) -> str:
        """Field, value and rule in one line."""
        return f"{self.pointer or '/'}: {self.shown}: {self.rule}"


class FleetError(Exception):
    """The root of all errors that gpufleet raises on purpose."""


class InvalidError(FleetError):
    """An input breaks one or more rules; `problems` holds all of them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


class ForbiddenError(FleetError):
    """The input is well formed, but the caller may not ask for it here (a namespace that is not allowed)."""


class NotFoundError(FleetError):
    """No such thing; `kind` and `name` say what was looked for."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        super().__init__(f"{kind} '{name}' not found")


class ConflictError(FleetError):
    """The thing is in a state that does not allow this."""


class TooLargeError(FleetError):
    """An input is larger than its documented limit; both in bytes."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.what = what
        self.size = size
        self.limit = limit
        super().__init__(f"{what} is {size} bytes, the limit is {limit} bytes")


class UnavailableError(FleetError):
    """A part that is needed did not answer, or asked us to slow down. The outcome of the call may be unknown."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)

"""Every error that the fleet raises on purpose: one root, and the data of each error as attributes.

A door translates these into its own wire form; nothing else needs to know HTTP.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

SHOWN: Final = 120
"""Characters of a value that are told; its sender knows the rest, and a log need not have it."""
MAX_PROBLEMS: Final = 100
"""Problems told at once; of those after these no more is said than how many they are, where they are looked for at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One fault in an input: where it is, what stands there, and the rule that it breaks.

    `pointer` is a JSON pointer (RFC 6901) into the document that was sent, such as `/manifest/spec/template`.
    `value` is what was found there; what is told of it is `told`.
    `rule` is one sentence that says what is right.
    """

    pointer: str
    value: Any
    rule: str

    @property
    def told(self) -> str | int | float | bool | None:
        """The value as JSON has it: a short one as it is, a long text cut; nothing of a composed one, which may hold secrets.

        None too where nothing was found, or what JSON doesn't have. Lone surrogates, which no answer could carry, become question marks.
        """
        value = self.value
        if isinstance(value, str):
            return cut(value)
        if isinstance(value, int):
            return value if isinstance(value, bool) or abs(value) < 2**63 else None
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        return None

    @property
    def shown(self) -> str:
        """The value for a line of text, as it is written in JSON; empty where there is nothing to show."""
        return "" if self.told is None else json.dumps(self.told, ensure_ascii=False)

    def __str__(self) -> str:
        """Field, value and rule in one line."""
        return ": ".join(part for part in (self.pointer or "/", self.shown, self.rule) if part)


def clean(text: str) -> str:
    """The text without lone surrogates, which UTF-8 can't carry."""
    return text.encode(errors="replace").decode()


def cut(text: str, limit: int = SHOWN) -> str:
    """The text as far as it is told."""
    return clean(text if len(text) <= limit else f"{text[: limit - 3]}...")


class FleetError(Exception):
    """The root of all errors that gpufleet raises on purpose."""


class InvalidError(FleetError):
    """An input breaks one or more rules; `problems` holds all of them, the text no more than the first hundred."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        told = [str(problem) for problem in islice(self.problems, MAX_PROBLEMS)]
        more = len(self.problems) - len(told)
        super().__init__("; ".join([*told, *([f"and {more} more"] if more else [])]))


class ForbiddenError(FleetError):
    """The input is well formed, but the caller may not ask for it here (a namespace that is not allowed).

    Where it is a field of an input, `problems` tells of it as of any other, so that it can be told together with them.
    """

    def __init__(self, message: str, *, problems: Iterable[Problem] = ()) -> None:
        self.problems = tuple(problems)
        super().__init__(message)


class NotFoundError(FleetError):
    """No such thing; `kind` and `name` say what was looked for, `hint` what there is instead. The text has the name cut."""

    def __init__(self, kind: str, name: str, *, hint: str | None = None) -> None:
        self.kind = kind
        self.name = name
        self.hint = hint
        super().__init__(f"{kind} '{cut(name)}' not found" + (f" ({hint})" if hint else ""))


class ConflictError(FleetError):
    """The thing is in a state that does not allow this."""


class TooLargeError(FleetError):
    """An input is larger than its documented limit; both in bytes. `pointer` is its place, and `problems` tells of it as of any other."""

    def __init__(self, what: str, size: int, limit: int, *, pointer: str = "") -> None:
        self.what = what
        self.size = size
        self.limit = limit
        self.pointer = pointer
        super().__init__(f"{what} is {size} bytes, the limit is {limit} bytes")
        self.problems = (Problem(pointer=pointer, value=None, rule=str(self)),)


class UnavailableError(FleetError):
    """A part that is needed did not answer, or asked us to slow down. The outcome of the call may be unknown."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class NotHereError(UnavailableError):
    """This process has not the part that is needed (a cluster, a worker that isn't built in); the message says so, and may be told."""

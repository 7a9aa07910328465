"""What can go wrong in a command, the exit code that each means, and how it is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from shared.errors import Problem

_LONGEST_VALUE = 120


class ExitCode(IntEnum):
    """The exit codes of `gpufleet`, for scripts."""

    OK = 0
    FAILED = 1  # the job failed or was cancelled; what was sent was refused; something broke
    USAGE = 2  # an option, a file or a value is not right; nothing was sent
    NOT_FOUND = 3  # no such job, rejection, dead letter or queue
    CONFLICT = 4  # the thing is in a state that doesn't allow this, or the idempotency key stands for another request
    UNREACHABLE = 5  # the API doesn't answer, or says that it can't now
    UNKNOWN_CALLER = 6  # no key was given, or one that the API doesn't know; what a known caller may not do is refused
    INTERRUPTED = 130  # Ctrl-C


@dataclass(frozen=True, slots=True)
class Fault:
    """One line about one fault: where it is, what stands there, what is right. Empty parts are left out."""

    field: str
    value: str
    rule: str

    def __str__(self) -> str:
        """Field, value and rule in one line."""
        return ": ".join(part for part in (self.field, self.value, self.rule) if part)

    @classmethod
    def of(cls, problem: Problem, *, source: str = "") -> Fault:
        """From a problem that was found on this side, in the file that it was found in."""
        pointer = problem.pointer or "/"
        return cls(f"{source}: {pointer}" if source else pointer, shown(problem.value), problem.rule)

    def as_json(self) -> dict[str, str]:
        """The same for programs."""
        return {"field": self.field, "value": self.value, "rule": self.rule}


class CommandError(Exception):
    """A command can't go on: a sentence, perhaps the single faults behind it, and the exit code."""

    def __init__(self, message: str, *, code: ExitCode = ExitCode.FAILED, faults: Sequence[Fault] = ()) -> None:
        self.message = message
        self.code = code
        self.faults = tuple(faults)
        super().__init__(message)

    @classmethod
    def at(cls, field: str, value: Any, rule: str, *, code: ExitCode = ExitCode.USAGE) -> CommandError:
        """An error that is one fault, told in one line."""
        fault = Fault(field, "(empty)" if value == "" else shown(value), rule)
        return cls(str(fault), code=code, faults=[fault])

    @classmethod
    def of(cls, problems: Sequence[Problem], *, told: str, code: ExitCode = ExitCode.USAGE) -> CommandError:
        """An error of an input's problems: a single one in one line, several below the sentence `told`."""
        faults = [Fault.of(problem) for problem in problems]
        return cls(str(faults[0]) if len(faults) == 1 else told, code=code, faults=faults)

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {"message": self.message, "faults": [fault.as_json() for fault in self.faults], "exit_code": int(self.code)}


def shown(value: Any) -> str:
    """A value as it was written, cut to a readable length; nothing where there is none. Bytes that are no text are in hexadecimal."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        text = value.hex(" ")
    else:
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"

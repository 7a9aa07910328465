"""What typer has against a command line, told as all other faults are: which option, what was given, and what it must be."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import typer

from workers.cli.failures import CommandError, ExitCode

_ANOTHER: Final = "must be an option of this command"
_PLAIN: Final[Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[str, str | None, str]]]]] = (
    (
        re.compile(r"No such option: (\S+)(?: (.*))?", re.DOTALL),
        lambda found: (found[1], None, " ".join(filter(None, (_ANOTHER, found[2])))),
    ),
    (re.compile(r"No such command '(.*)'", re.DOTALL), lambda found: (found[1], None, "must be a command that there is")),
    (
        re.compile(r"Option '(\S+)' requires (.*)", re.DOTALL),
        lambda found: (found[1], None, f"must have {found[2].replace('an argument', 'a value')}"),
    ),
    (re.compile(r"Option '(\S+)' does not take a value"), lambda found: (found[1], None, "must be without a value")),
    (
        re.compile(r"Got unexpected extra argument\(?s?\)? \((.*)\)", re.DOTALL),
        lambda found: (found[1], None, "must be left out: more was given than the command takes"),
    ),
)
"""What typer says where it names no parameter of a command; else field, value and rule."""
_CHOICE: Final = re.compile(r"'?.*'? is not one of (?P<choices>.*)", re.DOTALL)


def usage(error: typer.TyperException, arguments: list[str]) -> CommandError:
    """The fault of a command line, in one line; `arguments` are what came after the command's own name."""
    if not error.format_message():  # no command at all: its help has been shown
        return CommandError("a command must be given", code=ExitCode.USAGE)
    parameter: Any = getattr(error, "param", None)
    context: Any = getattr(error, "ctx", None)
    hint = f" ({context.command_path} --help tells more)" if context is not None else ""
    if parameter is None:
        message = error.format_message().rstrip(".")
        for pattern, told in _PLAIN:
            if found := pattern.fullmatch(message):
                field, value, rule = told(found)
                return CommandError.at(field, value, f"{rule}{hint}")
        return CommandError(f"{message}{hint}", code=ExitCode.USAGE)
    is_option = bool(parameter.opts) and parameter.opts[0].startswith("-")
    field = parameter.opts[0] if is_option else parameter.metavar or parameter.name.upper()
    if not error.message:
        return CommandError.at(field, None, f"must be given{hint}")
    return CommandError.at(field, _value_of(parameter.opts, arguments), f"{_rule(error)}{hint}")


def _rule(error: typer.TyperException) -> str:
    """The rule that a value breaks: typer has pydantic look at values, and keeps what that says."""
    from pydantic import ValidationError

    from shared.rules import rule_of

    cause: Any = error.__cause__
    if not isinstance(cause, ValidationError):
        return error.message.rstrip(".")
    told = cause.errors(include_url=False)[0]
    while isinstance(inner := told.get("ctx", {}).get("error"), ValidationError):  # of one of several values
        told = inner.errors(include_url=False)[0]
    if choice := _CHOICE.fullmatch(str(told["msg"]).rstrip(".")):
        return f"must be one of {choice['choices']}"
    return rule_of(told)


def _value_of(names: list[str], arguments: list[str]) -> str | None:
    """What an option was given, for the last time; None where that is the environment's, or it is no option."""
    for place in range(len(arguments) - 1, -1, -1):
        name, separator, value = arguments[place].partition("=")
        if name in names:
            return value if separator else next(iter(arguments[place + 1 :]), None)
    return None

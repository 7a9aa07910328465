"""What pydantic has against an input, in the words of all other refusals: a rule that says what the input must be.

Whoever reads these knows JSON and no Python. The API, messages of the queues, settings, and options of the command are told so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from shared.clusters.trees import step
from shared.errors import Problem

_NUMBERS: Final = {
    "greater_than": ("must be more than", "gt"),
    "greater_than_equal": ("must be at least", "ge"),
    "less_than": ("must be less than", "lt"),
    "less_than_equal": ("must be at most", "le"),
}
_LENGTHS: Final = {
    "too_short": ("must have at least", "min_length", "item"),
    "too_long": ("must have at most", "max_length", "item"),
    "string_too_short": ("must have at least", "min_length", "character"),
    "string_too_long": ("must have at most", "max_length", "character"),
    "bytes_too_short": ("must have at least", "min_length", "byte"),
    "bytes_too_long": ("must have at most", "max_length", "byte"),
}
_WORDS: Final = {
    "missing": "must be given",
    "missing_argument": "must be given",
    "extra_forbidden": "must be left out: there is nothing of this name",
    "unexpected_keyword_argument": "must be left out: there is nothing of this name",
    "invalid_key": "must have strings as keys",
    "none_required": "must be null",
}
_KINDS: Final = {
    "an object": ("counter", "dataclass", "dict", "mapping", "model", "model_attributes", "ordered_dict"),
    "an array": ("deque", "frozen_set", "iterable", "list", "set", "tuple"),
    "a string": ("string", "string_unicode"),
    "a whole number": ("int", "int_from_float", "int_parsing", "int_parsing_size"),
    "a number": ("decimal", "decimal_parsing", "float", "float_parsing"),
    "true or false": ("bool", "bool_parsing"),
}
_BY_TYPE: Final = {form: f"must be {kind}" for kind, names in _KINDS.items() for name in names for form in (name, f"{name}_type")} | _WORDS
_RAISED: Final = ("Value error, ", "Assertion failed, ")
"""What pydantic writes before the words of a validator of ours."""
_SHOULD: Final = re.compile(r"(?:[\w ]+ )?should (?P<rest>\S.*)", re.DOTALL)


def rule_of(error: Mapping[str, Any]) -> str:
    """The rule that an error of pydantic tells of (one of `ValidationError.errors()`)."""
    kind, context, message = str(error["type"]), error.get("ctx") or {}, str(error["msg"])
    for raised in _RAISED:
        message = message.removeprefix(raised)
    if re.search(r"\bmust\b", message) and kind != "arguments_type":  # a rule of ours
        return message
    if kind in _NUMBERS and _NUMBERS[kind][1] in context:
        words, name = _NUMBERS[kind]
        return f"{words} {_number(context[name])}"
    if kind in _LENGTHS and _LENGTHS[kind][1] in context:
        words, name, unit = _LENGTHS[kind]
        return f"{words} {context[name]} {unit}{'' if context[name] == 1 else 's'}"
    if kind in ("enum", "literal_error") and "expected" in context:
        return f"must be {context['expected']}"
    if kind == "string_pattern_mismatch" and "pattern" in context:
        return f"must match the pattern {context['pattern']}"
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if should := _SHOULD.fullmatch(message):
        return f"must {should['rest']}"
    return f"must be valid: {message[:1].lower()}{message[1:]}"


def problems_of(error: ValidationError) -> Iterator[Problem]:
    """All that pydantic has against a document, each with its JSON pointer. Objects and arrays are not shown: they may hold secrets."""
    for one in error.errors(include_url=False):
        value = None if isinstance(one["input"], dict | list) else one["input"]
        yield Problem(pointer="".join(step(part) for part in one["loc"]), value=value, rule=rule_of(one))


def _number(limit: Any) -> Any:
    return int(limit) if isinstance(limit, float) and limit.is_integer() else limit

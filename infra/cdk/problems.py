"""Faults of settings, told as those of any other input: where, what stands there, and the rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from shared.errors import Problem


def problems_of(error: ValidationError) -> Iterator[Problem]:
    """Every fault that pydantic has found."""
    faults = error.errors(include_url=False)
    for fault in faults:
        place = fault["loc"]
        # What is wrong isn't counted: a list with one wrong part is told as an empty one too.
        if fault["type"] == "too_short" and any(other["loc"][: len(place)] == place and other["loc"] != place for other in faults):
            continue
        pointer = "".join(f"/{step}" for step in place)
        yield Problem(pointer=pointer, value=None if fault["type"] == "missing" else fault["input"], rule=_rule(fault))


def _rule(fault: Any) -> str:
    match fault["type"]:
        case "missing":
            return "must be there"
        case "extra_forbidden":
            return "must be a setting that there is"
        case "value_error":
            return str(fault["ctx"]["error"])
        case "string_pattern_mismatch":
            return f"must match {fault['ctx']['pattern']}"
        case "too_short":
            return f"must have at least {fault['ctx']['min_length']} item, not {fault['ctx']['actual_length']}"
        case "literal_error":
            return f"must be {fault['ctx']['expected']}"
        case _:
            text = str(fault["msg"])
            return "must " + text.removeprefix("Input should ") if text.startswith("Input should ") else text

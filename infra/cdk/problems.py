"""Faults of settings, told as those of any other input: where, what stands there, and the rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from shared.errors import Problem
from shared.rules import rule_of


class PartError(ValueError):
    """What validators of a whole part raise: faults of its single settings, with their places in the part."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def refuse(problems: Iterable[Problem]) -> None:
    """Raise PartError, where there is any."""
    found = tuple(problems)
    if found:
        raise PartError(found)


def pointer(*steps: object) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def twice(place: str, names: Iterable[str | None], field: str = "") -> Iterator[Problem]:
    """The names of a list that were there before; `field` is where in each member it is. None is no name."""
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            yield Problem(pointer=f"{place}/{number}{field}", value=name, rule="must not come more than once")
        if name is not None:
            seen.add(name)


def problems_of(error: ValidationError) -> Iterator[Problem]:
    """Every fault that pydantic has found."""
    faults = error.errors(include_url=False)
    for fault in faults:
        place = fault["loc"]
        # What is wrong isn't counted: a list with one wrong part is told as an empty one too.
        if fault["type"] == "too_short" and any(other["loc"][: len(place)] == place and other["loc"] != place for other in faults):
            continue
        # A wrong key of a mapping is where it stands.
        at = pointer(*(place[:-1] if place and place[-1] == "[key]" else place))
        of_part = fault["ctx"]["error"] if fault["type"] == "value_error" else None
        if isinstance(of_part, PartError):
            yield from (Problem(pointer=at + one.pointer, value=one.value, rule=one.rule) for one in of_part.problems)
        else:
            yield Problem(pointer=at, value=None if fault["type"] == "missing" else fault["input"], rule=rule_of(fault))

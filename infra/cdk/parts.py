"""What settings are made of: parts whose faults are all told at once, those of single settings and those between them.

Pydantic asks what must hold of a part as a whole only where all of its settings are right, so one fault would hide others. Where there is
one, what is right of the document is put together without the rest, and the rules of wholes are asked of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic.fields import FieldInfo

from infra.cdk.problems import problems_of, refuse
from shared.errors import InvalidError, Problem

Rule = Callable[[Any], Iterator[Problem]]
P = TypeVar("P", bound="Part")


def whole(rule: Rule) -> Rule:
    """Mark a method of a part as a rule between its settings: it yields what breaks it, with places in the part."""
    rule.__dict__["of_whole"] = True
    return rule


class Part(BaseModel):
    """A part of the settings: frozen, and without fields that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="after")
    def _as_a_whole(self) -> Self:
        refuse(problem for rule in _rules(type(self)) for problem in rule(self))
        return self


def read(part: type[P], document: Mapping[str, Any]) -> P:
    """The part that a document describes. Raises InvalidError with every fault, each with its place."""
    try:
        return part.model_validate(document)
    except ValidationError as error:
        found = [*problems_of(error), *_broken(_right(part, document), "")]
        raise InvalidError({(one.pointer, one.rule): one for one in found}.values()) from error


def names_of(parts: Iterable[Any]) -> list[str | None]:
    """The names of parts; None of one whose name is wrong by itself."""
    return [getattr(one, "name", None) for one in parts]


def _rules(part: type[Part]) -> list[Rule]:
    return [one for one in vars(part).values() if getattr(one, "of_whole", False)]


def _right(part: type[Part], document: Any) -> Part | None:
    """What is right of a part's document: a setting that is wrong isn't there, and looking for it is an AttributeError."""
    if not isinstance(document, Mapping):
        return None
    given = {name: field for name, field in part.model_fields.items() if name in document}
    right = dict(found for name, field in given.items() for found in _right_of(name, field, document[name]))
    made = part.model_construct(**right)
    for name in given.keys() - right.keys():
        made.__dict__.pop(name, None)
    return made


def _right_of(name: str, field: FieldInfo, value: Any) -> Iterator[tuple[str, Any]]:
    inner = next((one for one in (field.annotation, *get_args(field.annotation)) if isinstance(one, type) and issubclass(one, Part)), None)
    if inner is not None and isinstance(value, Mapping):
        yield name, _right(inner, value)
    elif inner is not None and isinstance(value, list):
        yield name, tuple(_right(inner, one) for one in value)
    else:
        adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, field])  # type: ignore[arg-type] # known only now
        try:
            yield name, adapter.validate_python(value)
        except ValidationError:
            if isinstance(value, Mapping):
                yield name, {key: one for key, one in value.items() if _takes(adapter, {key: one})}


def _takes(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def _broken(part: Part | None, place: str) -> Iterator[Problem]:
    """What breaks the rules of a part and of those in it, as far as these ask for what is there."""
    if part is None:
        return
    for rule in _rules(type(part)):
        try:
            found = list(rule(part))
        except AttributeError:
            continue
        yield from (Problem(pointer=place + one.pointer, value=one.value, rule=one.rule) for one in found)
    for name, value in part.__dict__.items():
        if isinstance(value, Part):
            yield from _broken(value, f"{place}/{name}")
        elif isinstance(value, tuple):
            for number, one in enumerate(value):
                if isinstance(one, Part):
                    yield from _broken(one, f"{place}/{name}/{number}")

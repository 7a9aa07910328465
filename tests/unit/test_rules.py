"""What pydantic has against an input is told as any other rule: what the input must be, in the words of JSON."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, PydanticKnownError, core_schema
from pydantic_core._pydantic_core import list_all_errors  # the one list of them, with an example of what each is about

from shared.rules import rule_of


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str


def raising(error: Exception) -> Any:
    from pydantic import BeforeValidator

    def check(_: object) -> object:
        raise error

    return Annotated[Any, BeforeValidator(check)]


def rules(kind: Any, value: Any, *, strict: bool | None = None) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(value, strict=strict)
    return [rule_of(error) for error in refused.value.errors()]


@pytest.mark.parametrize(
    ("kind", "value", "rule"),
    [
        (Annotated[int, Field(ge=1)], 0, "must be at least 1"),
        (Annotated[float, Field(ge=1.0)], 0, "must be at least 1"),
        (Annotated[float, Field(gt=0.5)], 0, "must be more than 0.5"),
        (Annotated[int, Field(lt=5)], 5, "must be less than 5"),
        (Annotated[int, Field(le=168)], 200, "must be at most 168"),
        (Annotated[str, Field(min_length=1)], "", "must have at least 1 character"),
        (Annotated[str, Field(max_length=2)], "abc", "must have at most 2 characters"),
        (Annotated[list[int], Field(min_length=1)], [], "must have at least 1 item"),
        (Annotated[list[int], Field(max_length=2)], [1, 2, 3], "must have at most 2 items"),
        (Annotated[str, Field(pattern="^a+$")], "b", "must match the pattern ^a+$"),
        (Literal["a", "b"], "c", "must be 'a' or 'b'"),
        (Colour, "green", "must be 'red' or 'blue'"),
        (Thing, {}, "must be given"),
        (Thing, {"name": "x", "nmae": 1}, "must be left out: there is nothing of this name"),
        (Thing, 5, "must be an object"),
        (dict[str, str], [], "must be an object"),
        (list[int], {}, "must be an array"),
        (str, 5, "must be a string"),
        (int, "many", "must be a whole number"),
        (int, 1.5, "must be a whole number"),
        (float, "much", "must be a number"),
        (bool, "perhaps", "must be true or false"),
        (None, 5, "must be null"),
        (raising(ValueError("must be odd")), 2, "must be odd"),
        (raising(ValueError("key must be odd")), 2, "key must be odd"),
        (raising(AssertionError("must be even")), 3, "must be even"),
        (raising(PydanticCustomError("too_long", "must have at most {limit} bytes", {"limit": 9})), 3, "must have at most 9 bytes"),
    ],
)
def test_a_rule_says_what_an_input_must_be(kind: Any, value: Any, rule: str) -> None:
    assert rules(kind, value) == [rule]


def test_what_has_no_words_of_its_own_is_told_in_pydantics_behind_must() -> None:
    assert rules(datetime, "soon")[0].startswith("must be a valid datetime")
    assert rules(Annotated[int, Field(multiple_of=3)], 4) == ["must be a multiple of 3"]
    assert rules(raising(ValueError("too odd")), 2) == ["must be valid: too odd"]


KNOWN = {one["type"]: one.get("example_context") for one in list_all_errors()}


@pytest.mark.parametrize("kind", sorted(get_args(core_schema.ErrorType)))
def test_whatever_pydantic_says_is_a_rule(kind: str) -> None:
    context = KNOWN[kind]
    message = PydanticKnownError(kind, context).message()
    rule = rule_of({"type": kind, "msg": message, "ctx": context or {}})
    assert rule.startswith("must ")
    assert "should" not in rule.split(":")[0]

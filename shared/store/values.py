"""Plain values to DynamoDB's typed ones and back.

boto3 has such a serializer, and brings all of boto3 with it. This one takes a third of its time for an item, knows the types that items
here are made of, and refuses every other one: sets aren't used, and a float would lose what was written.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

_DIGITS = 38
"""Significant digits of a number; DynamoDB refuses more."""


def to_typed(value: Any) -> dict[str, Any]:
    """`{"S": "text"}` for a text, and so on for booleans, whole numbers, Decimal, bytes, lists, dictionaries and None.

    Raises TypeError for any other type, ValueError for a number that DynamoDB would refuse.
    """
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int | Decimal):
        return {"N": _number(value)}
    if isinstance(value, dict):
        return {"M": {name: to_typed(one) for name, one in value.items()}}
    if isinstance(value, list | tuple):
        return {"L": [to_typed(one) for one in value]}
    if isinstance(value, bytes):
        return {"B": value}
    if value is None:
        return {"NULL": True}
    raise TypeError(f"{type(value).__name__} is no type of an item's value")


def from_typed(typed: dict[str, Any]) -> Any:
    """The value; a number as Decimal. Raises TypeError for a type that is not in use here."""
    ((kind, value),) = typed.items()
    match kind:
        case "S" | "BOOL":
            return value
        case "N":
            return Decimal(value)
        case "M":
            return {name: from_typed(one) for name, one in value.items()}
        case "L":
            return [from_typed(one) for one in value]
        case "B":
            return bytes(value)
        case "NULL":
            return None
        case _:
            raise TypeError(f"{kind} is no type of an item's value here")


def _number(value: int | Decimal) -> str:
    text = str(value)
    if isinstance(value, Decimal) or len(text) > _DIGITS:
        digits = Decimal(value).as_tuple()
        significant = "".join(map(str, digits.digits)).strip("0")
        if not isinstance(digits.exponent, int) or len(significant) > _DIGITS:
            raise ValueError(f"{value} is no number that DynamoDB keeps exactly")
    return text

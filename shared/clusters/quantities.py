"""Kubernetes quantities (`500m`, `1.5Gi`, `1e3`) as exact decimals, read as the API server reads them.

The grammar and the rounding are those of `resource.Quantity`
(https://github.com/kubernetes/apimachinery/blob/master/pkg/api/resource/quantity.go):

- finer than nano is rounded away from zero, so that a request for a little never becomes a request for nothing;
- binary quantities (`Ki` to `Ei`) are capped at 2^63-1.

The parser of the Kubernetes client isn't used: it takes `1K`, `NaN`, `1_000` and surrounding blanks, which a cluster refuses.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Final

RULE: Final = (
    "must be a Kubernetes quantity: a number with an optional suffix "
    "(n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3), without blanks"
)

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]))?"
)
_DECIMAL_EXPONENT: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_FACTOR: Final = {suffix: Decimal(1024**power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_BINARY_MAXIMUM: Final = Decimal(2**63 - 1)
_NANO: Final = Decimal("1e-9")

_LONGEST: Final = 64
_LARGEST_EXPONENT: Final = 36
# Room for every digit that a text of the longest length and the largest exponent can stand for.
_EXACT: Final = Context(prec=_LONGEST + _LARGEST_EXPONENT + 32, rounding=ROUND_UP)


class QuantityError(ValueError):
    """The value is no Kubernetes quantity; the message is the rule that it breaks."""


def parse_quantity(value: str | int | float | Decimal) -> Decimal:
    """Return the exact value of a quantity, rounded and capped only where Kubernetes does.

    Numbers count as the text that JSON would carry for them: `2` and `0.5` are fine.

    Raises:
        QuantityError: not in the grammar, longer than 64 characters, or with an exponent beyond ±36. The API server sets no
            bound there, but no machine has that much of anything, and a number of a billion digits can't be added up.
    """
    return _parse(_text(value))


@lru_cache(maxsize=1024)
def _parse(text: str) -> Decimal:
    """The same for a text; remembered, since the rules of a manifest ask for each of its few quantities several times."""
    matched = _QUANTITY.fullmatch(text)
    if matched is None:
        raise QuantityError(RULE)
    number = Decimal(matched["number"])
    if matched["binary"]:
        exact = _EXACT.multiply(number, _BINARY_FACTOR[matched["binary"]])
        exact = max(min(exact, _BINARY_MAXIMUM), -_BINARY_MAXIMUM)
    else:
        exponent = int(matched["exponent"] or 0) + _DECIMAL_EXPONENT.get(matched["decimal"], 0)
        if abs(exponent) > _LARGEST_EXPONENT:
            raise QuantityError(f"must have an exponent from -{_LARGEST_EXPONENT} to {_LARGEST_EXPONENT}")
        exact = _EXACT.scaleb(number, exponent)
    return exact if _nano_or_coarser(exact) else _EXACT.quantize(exact, _NANO)


def format_quantity(value: Decimal) -> str:
    """Return a quantity as plain digits for messages: `384`, `1.5`; never in exponents."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_bytes(value: Decimal) -> str:
    """Return an amount of bytes in the largest binary unit in which it is a whole number: `4Ti`."""
    whole = int(value)
    if whole == value and whole:
        for suffix, factor in reversed(_BINARY_FACTOR.items()):
            if whole % int(factor) == 0:
                return f"{whole // int(factor)}{suffix}"
    return format_quantity(value)


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise QuantityError(RULE)
    if isinstance(value, int) and value.bit_length() > _LONGEST * 3:
        raise QuantityError(f"must have at most {_LONGEST} characters")
    text = value if isinstance(value, str) else repr(value) if isinstance(value, float) else str(value)
    if len(text) > _LONGEST:
        raise QuantityError(f"must have at most {_LONGEST} characters")
    return text


def _nano_or_coarser(value: Decimal) -> bool:
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -9

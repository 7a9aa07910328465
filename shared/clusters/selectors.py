"""Label selectors: the whole grammar of Kubernetes, parsed so that a fault is told with its place.

    selector    = [requirement *("," requirement)]
    requirement = key | "!" key | key ("=" | "==" | "!=") [value] | key (">" | "<") integer | key ("in" | "notin") "(" values ")"
    values      = [value] *("," [value])

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors; what that page leaves out (empty values, `>` and
`<`, words such as `in` as keys) is as in apimachinery `pkg/labels/selector.go`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shared.clusters.label_grammar import KEY_RULE, VALUE_RULE, is_label_value, is_qualified_name
from shared.errors import InvalidError, Problem

LONGEST: Final = 1024
"""Characters of a selector; a limit of the door's, for Kubernetes has none."""

_BLANKS: Final = " \t\r\n"
_TOKEN: Final = re.compile(rf"[{_BLANKS}]*(?:(?P<symbol>==|!=|[=!(),<>])|(?P<word>[^{_BLANKS}=!(),<>]+))")
_BLANK: Final = re.compile(rf"[{_BLANKS}]*")
_END: Final = ""


class Operator(StrEnum):
    """How a requirement compares; `=` and `==` are `in` with one value, `!=` is `notin` with one."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    MISSING = "!"
    GREATER = ">"
    LESS = "<"


_EXACT: Final = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Requirement:
    """One condition on the labels of an object. Labels without the key fulfil `notin` and `!` only."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels fulfils it."""
        found = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return found in self.values
            case Operator.NOT_IN:
                return found not in self.values
            case Operator.EXISTS:
                return found is not None
            case Operator.MISSING:
                return found is None
        number, limit = _integer(found or ""), _integer(*self.values)
        if number is None or limit is None:
            return False
        return number > limit if self.operator is Operator.GREATER else number < limit


def parse_selector(text: str, *, pointer: str = "") -> tuple[Requirement, ...]:
    """The requirements of a selector, of which an object must fulfil all; none for a blank text, which selects everything.

    Raises InvalidError with the place of the first fault; `pointer` is the selector's own place in the input.
    """
    try:
        return tuple(_Parser(text).requirements())
    except _FaultError as fault:
        rule = f"must be a label selector of Kubernetes, and at character {fault.place + 1} {fault.rule}"
        raise InvalidError([Problem(pointer=pointer, value=text, rule=rule)]) from None


class _FaultError(Exception):
    def __init__(self, place: int, rule: str) -> None:
        self.place = place
        self.rule = rule


@dataclass(frozen=True, slots=True)
class _Token:
    """A symbol or a word; the end is an empty symbol."""

    text: str
    place: int
    word: bool = False

    def __str__(self) -> str:
        return f"'{self.text}'" if self.text else "the end"


@dataclass(slots=True)
class _Parser:
    text: str
    _tokens: Iterator[_Token] = field(init=False)
    _next: _Token = field(init=False)

    def __post_init__(self) -> None:
        self._tokens = _scan(self.text)
        self._next = next(self._tokens)

    def requirements(self) -> Iterator[Requirement]:
        if self._is(_END):
            return
        while True:
            yield self._requirement()
            if self._is(_END):
                return
            self._expect(",", or_else="',' or the end")

    def _requirement(self) -> Requirement:
        missing = self._takes("!")
        key = self._word("the key of a label")
        if not is_qualified_name(key.text):
            raise _FaultError(key.place, f"{key}: {KEY_RULE}")
        if missing:
            return Requirement(key=key.text, operator=Operator.MISSING)
        if self._is(",") or self._is(_END):
            return Requirement(key=key.text, operator=Operator.EXISTS)
        operator = self._take()
        if operator.word and operator.text in (Operator.IN, Operator.NOT_IN):
            return Requirement(key=key.text, operator=Operator(operator.text), values=self._values())
        if operator.word or operator.text not in _EXACT:
            raise _FaultError(operator.place, f"stands {operator} instead of an operator, which is one of =, ==, !=, in, notin, > and <")
        return Requirement(key=key.text, operator=_EXACT[operator.text], values=self._exact(_EXACT[operator.text]))

    def _exact(self, operator: Operator) -> frozenset[str]:
        if operator in (Operator.GREATER, Operator.LESS):
            value = self._word("an integer")
            if _integer(value.text) is None:
                raise _FaultError(value.place, f"{value}: must be an integer of 64 bits, not negative")
            return frozenset({value.text})
        return frozenset({"" if self._is(",") or self._is(_END) else self._value()})

    def _values(self) -> frozenset[str]:
        self._expect("(", or_else="'('")
        if self._is(")"):
            raise _FaultError(self._next.place, "a set of values ends that has none")
        values = set()
        while True:
            values.add("" if self._is(",") or self._is(")") else self._value())
            if self._takes(")"):
                return frozenset(values)
            self._expect(",", or_else="',' or ')'")

    def _value(self) -> str:
        value = self._word("the value of a label")
        if not is_label_value(value.text):
            raise _FaultError(value.place, f"{value}: {VALUE_RULE}")
        return value.text

    def _word(self, what: str) -> _Token:
        if not self._next.word:
            raise _FaultError(self._next.place, f"stands {self._next} instead of {what}")
        return self._take()

    def _expect(self, symbol: str, *, or_else: str) -> None:
        if not self._takes(symbol):
            raise _FaultError(self._next.place, f"stands {self._next} instead of {or_else}")

    def _takes(self, symbol: str) -> bool:
        found = self._is(symbol)
        if found:
            self._take()
        return found

    def _is(self, symbol: str) -> bool:
        return not self._next.word and self._next.text == symbol

    def _take(self) -> _Token:
        taken = self._next
        self._next = next(self._tokens, taken)
        return taken


def _scan(text: str) -> Iterator[_Token]:
    position = 0
    while found := _TOKEN.match(text, position):
        kind = found.lastgroup or ""
        yield _Token(found[kind], found.start(kind), word=kind == "word")
        position = found.end()
    blank = _BLANK.match(text, position)
    yield _Token(_END, blank.end() if blank else position)


def _integer(text: str) -> int | None:
    """As Go's ParseInt of 64 bits reads what may stand in a label."""
    if not (text.isascii() and text.isdigit() and len(text) <= 63):
        return None
    number = int(text)
    return number if number < 2**63 else None

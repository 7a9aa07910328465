"""YAML text into trees, with the meaning that kubectl gives it and none of the power that YAML has beyond JSON.

kubectl reads YAML through sigs.k8s.io/yaml, whose parser is a fork of go-yaml v2 and resolves plain scalars by its own table
(https://github.com/kubernetes-sigs/yaml/blob/master/goyaml.v2/resolve.go): YAML 1.1's `yes`, `no`, `on`, `off`, `y` and `n` are booleans,
`010` is eight, `1:30` and dates are strings. The same file must mean the same here, so the table here is that one. What kubectl would
quietly turn into something else (a key `on` into `"true"`) is refused instead.

The tree is built from the parser's events, so an alias, an anchor or a nesting too deep is refused before anything is built from it, and
every fault has its pointer, line and column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml

from shared.clusters.trees import MAX_DEPTH, MAX_KEY, MAX_VALUES, step
from shared.errors import MAX_PROBLEMS, InvalidError, Problem

_LOADER: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_WORDS: Final[dict[str, bool | float | None]] = {
    **{word: True for base in ("yes", "true", "on") for word in (base, base.capitalize(), base.upper())},
    **{word: False for base in ("no", "false", "off") for word in (base, base.capitalize(), base.upper())},
    "y": True,
    "Y": True,
    "n": False,
    "N": False,
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{sign + word: float(sign + "inf") for sign in ("", "+", "-") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INTEGER: Final = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")

_STANDARD: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "null": (type(None),),
}


def yaml_documents(text: str, *, limit: int) -> list[object]:
    """Return the documents of a YAML stream; an empty document counts as null.

    Raises:
        InvalidError: a syntax error, an anchor, an alias, a merge key, a tag that isn't JSON's, a key that is no string or stands twice,
            nesting beyond 50 levels, more than `limit` documents. Pointers begin with the document's number: `/0/spec`.
    """
    problems: list[Problem] = []
    documents: list[object] = []
    for document in _built(text, problems):
        if len(documents) == limit:
            problems.append(Problem(pointer="", value=None, rule=f"must hold at most {limit} documents"))
            break
        documents.append(document)
        if len(problems) >= MAX_PROBLEMS:
            break
    if problems:
        raise InvalidError(problems[:MAX_PROBLEMS])
    return documents


def resolve(text: str) -> bool | int | float | str | None:
    """Return what a plain (unquoted) scalar means to kubectl."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    if _INTEGER.fullmatch(digits) and len(digits) <= 80:
        return _integer(digits)
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            return text
        # Go writes a whole number into JSON without a point, and so it reaches the cluster as an integer.
        return int(number) if number.is_integer() and abs(number) < 2**63 else number
    return text


def _integer(digits: str) -> int:
    unsigned = digits.lstrip("+-")
    octal = len(unsigned) > 1 and unsigned[0] == "0" and unsigned[1].isdigit()
    return int(digits, 8 if octal else 0)


def _built(text: str, problems: list[Problem]) -> Iterator[object]:
    builder = _Builder(problems)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.ScalarEvent):
                builder.scalar(event)
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                builder.open(event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                builder.close()
            elif isinstance(event, yaml.AliasEvent):
                builder.fail(event, f"*{event.anchor}", "must not use aliases: write the value out")
            elif isinstance(event, yaml.DocumentEndEvent):
                yield builder.finish()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        problems.append(Problem(pointer=builder.pointer, value=None, rule=f"must be YAML: {reason}{where}"))
    except yaml.YAMLError as error:
        problems.append(Problem(pointer=builder.pointer, value=None, rule=f"must be YAML: {_reader_fault(text, error)}"))
    except _StopError:
        pass


class _StopError(Exception):
    """There is no sense in reading on; the problem is already told."""


class _Builder:
    """Builds one document after the other from events. The stack holds the open containers, each with the key that waits for its value."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._number = 0
        self._values = 0
        self._root: object = None
        self._stack: list[_Open] = []

    @property
    def pointer(self) -> str:
        """The JSON pointer of the place where the next value goes."""
        return step(self._number) + "".join(step(entry.place) for entry in self._stack if entry.place is not None)

    def scalar(self, event: Any) -> None:
        self._begin(event)
        value = self._value(event)
        top = self._stack[-1] if self._stack else None
        if top is not None and top.awaits_key:
            self._key(top, event, value)
        else:
            self._put(value)

    def open(self, event: Any) -> None:
        self._begin(event)
        if self._stack and self._stack[-1].awaits_key:
            self.fail(event, None, "key must be a string")
        if len(self._stack) >= MAX_DEPTH:
            self.fail(event, None, f"must be nested at most {MAX_DEPTH} levels deep")
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _STANDARD + kind):
            self._add(event, event.tag, "must not have a tag: only the types of JSON exist here")
        container: dict[str, object] | list[object] = {} if kind == "map" else []
        self._stack.append(_Open(container))

    def close(self) -> None:
        # Only now, so that the parent knew until here which of its places was being filled.
        self._put(self._stack.pop().container)

    def finish(self) -> object:
        root, self._root = self._root, None
        self._number += 1
        self._values = 0
        return root

    def fail(self, event: Any, value: object, rule: str) -> NoReturn:
        self._add(event, value, rule)
        raise _StopError

    def _put(self, value: object) -> None:
        if not self._stack:
            self._root = value
            return
        top = self._stack[-1]
        if isinstance(top.container, list):
            top.container.append(value)
        elif top.key is not None:
            top.container[top.key] = value
            top.key = None

    def _key(self, top: _Open, event: Any, value: object) -> None:
        if event.value == "<<" and _plain(event):
            self.fail(event, event.value, "must not merge keys: write the values out")
        if len(event.value) > MAX_KEY:
            self.fail(event, event.value, f"key must have at most {MAX_KEY} characters")
        if not isinstance(value, str):
            self._add(event, event.value, f"key must be a string: without quotes this is {_kind(value)}")
        key = event.value
        top.key = key
        if key in top.container:
            self._add(event, key, "key must stand only once in its object")

    def _value(self, event: Any) -> object:
        if event.tag is None:
            return resolve(event.value) if _plain(event) else event.value
        kind = event.tag.removeprefix(_STANDARD)
        if kind in ("!", "str"):
            return event.value
        value = resolve(event.value)
        if kind not in _SCALAR_TAGS or not isinstance(value, _SCALAR_TAGS[kind]) or (kind != "bool" and isinstance(value, bool)):
            self._add(event, event.tag, "must not have a tag that its value doesn't fit: only the types of JSON exist here")
        return value

    def _begin(self, event: Any) -> None:
        self._values += 1
        if self._values > 2 * MAX_VALUES:  # keys count here; `check_tree` counts exactly
            self.fail(event, None, f"must hold at most {MAX_VALUES} values")
        if event.anchor is not None:
            self._add(event, f"&{event.anchor}", "must not have an anchor: write the value out where it is needed")

    def _add(self, event: Any, value: object, rule: str) -> None:
        mark = event.start_mark
        self._problems.append(Problem(pointer=self.pointer, value=value, rule=f"{rule} (line {mark.line + 1}, column {mark.column + 1})"))
        if len(self._problems) >= MAX_PROBLEMS:
            raise _StopError


class _Open:
    """An array or object that isn't finished; `key` waits for its value."""

    __slots__ = ("container", "key")

    def __init__(self, container: dict[str, object] | list[object]) -> None:
        self.container = container
        self.key: str | None = None

    @property
    def awaits_key(self) -> bool:
        return isinstance(self.container, dict) and self.key is None

    @property
    def place(self) -> str | int | None:
        return self.key if isinstance(self.container, dict) else len(self.container)


def _plain(event: Any) -> bool:
    return event.tag is None and not event.style


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    return "null" if value is None else "a number"


def _reader_fault(text: str, error: yaml.YAMLError) -> str:
    position = getattr(error, "position", None)
    reason = getattr(error, "reason", str(error))
    if not isinstance(position, int):
        return str(reason)
    before = text.encode()[:position].decode(errors="ignore")
    return f"{reason} at line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"

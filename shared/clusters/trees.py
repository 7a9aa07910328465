"""JSON values as trees: what a value may hold to be stored and applied, and its canonical bytes.

Everything that comes from outside passes `check_tree` once, before anything walks it by recursion, hashes it or measures it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, Final

from shared.errors import MAX_PROBLEMS, InvalidError, Problem

MAX_DEPTH: Final = 50
"""Levels of arrays and objects, the outermost included; what GCO allows (`yaml_max_depth`)."""
MAX_VALUES: Final = 100_000
"""Values in one document. A manifest of the largest size that is made of tiny values would keep a worker busy for seconds."""
MAX_KEY: Final = 1024
"""Characters of a key; Kubernetes knows none longer than 317. Keys stand in pointers, and every problem beneath one would repeat it."""

_INT64: Final = range(-(2**63), 2**63)

Path = tuple["Path", str | int] | None
"""The way to a value, as a chain from the leaf to the root; text only when there is something to tell."""


class RepeatedKeys(dict[str, Any]):
    """An object that was written with the same key more than once; `repeated` holds these keys."""

    repeated: tuple[str, ...] = ()


def check_tree(value: object, *, pointer: str = "", max_depth: int = MAX_DEPTH, around: int = 0) -> None:
    """Refuse what JSON can carry and Kubernetes cannot, or what is too deep or too much to work on.

    `around` is how many levels stand around what the bound is about, so that it is the same number wherever it is told.

    Raises:
        InvalidError: more than `max_depth` levels or 100,000 values, keys that are no strings, too long or came twice, NUL characters,
            lone surrogates, numbers that aren't finite, integers beyond 64 bits, and values of a type that JSON doesn't have.
    """
    if (rule := _rule_against(value)) is not None:
        raise InvalidError([Problem(pointer=pointer, value=value, rule=rule)])
    problems: list[Problem] = []
    stack: list[tuple[dict[Any, Any] | list[Any], Path, int]] = [(value, None, 1)] if isinstance(value, dict | list) else []
    seen = 1
    while stack and len(problems) < MAX_PROBLEMS:
        found, path, depth = stack.pop()
        seen += len(found)
        if depth > max_depth + around:
            rule = f"must be nested at most {max_depth} levels deep"
            problems.append(Problem(pointer=pointer + text_of(path), value=None, rule=rule))
            continue
        if seen > MAX_VALUES:
            problems.append(Problem(pointer=pointer, value=None, rule=f"must hold at most {MAX_VALUES} values"))
            break
        for key, item in _members(found, pointer, path, problems):
            if isinstance(item, dict | list):
                stack.append((item, (path, key), depth + 1))
            elif (rule := _rule_against(item)) is not None:
                problems.append(Problem(pointer=pointer + text_of((path, key)), value=item, rule=rule))
                if len(problems) >= MAX_PROBLEMS:
                    break
    if problems:
        raise InvalidError(sorted(problems[:MAX_PROBLEMS], key=lambda problem: problem.pointer))


def canonical(value: object) -> bytes:
    """Return the one JSON text of a checked value: sorted keys, no blanks, UTF-8. For hashes, sizes and comparisons."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def step(key: str | int) -> str:
    """Return one step of a JSON pointer (RFC 6901), with its slash and its escapes."""
    return f"/{key}" if isinstance(key, int) else "/" + key.replace("~", "~0").replace("/", "~1")


def text_of(path: Path) -> str:
    """Return the JSON pointer of a path."""
    steps = []
    while path is not None:
        path, key = path
        steps.append(step(key))
    return "".join(reversed(steps))


def text_rule(text: str) -> str | None:
    """Return the rule that a text breaks, if it can't be stored as UTF-8 without NUL."""
    if "\0" in text:
        return "must not contain a NUL character"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "must not contain a lone surrogate"
    return None


def _rule_against(value: object) -> str | None:
    if isinstance(value, str):
        return text_rule(value)
    if value is None or isinstance(value, bool | dict | list):
        return None
    if isinstance(value, int):
        return None if value in _INT64 else "must be an integer of at most 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else "must be a finite number"
    return "must be a value of JSON: an object, an array, a string, a number, a boolean or null"


def _key_rule(key: object) -> str | None:
    if not isinstance(key, str):
        return "must be a string, as every key of an object"
    return f"must have at most {MAX_KEY} characters" if len(key) > MAX_KEY else text_rule(key)


def _members(found: dict[Any, Any] | list[Any], pointer: str, path: Path, problems: list[Problem]) -> Iterable[tuple[Any, Any]]:
    """The values of an object or an array with their keys; what is wrong with a key is noted, and its value left out."""
    if isinstance(found, list):
        return enumerate(found)
    wrong = _key_problems(found, pointer, path)
    if not wrong:
        return found.items()
    problems.extend(wrong)
    return [(key, item) for key, item in found.items() if _key_rule(key) is None]


def _key_problems(found: dict[Any, Any], pointer: str, path: Path) -> list[Problem]:
    problems = []
    for key in found:
        rule = _key_rule(key)
        if rule is not None:
            shown = key if isinstance(key, str | int | float) else None
            problems.append(Problem(pointer=pointer + text_of(path), value=shown, rule=f"key {rule}"))
            if len(problems) >= MAX_PROBLEMS:
                break
    if isinstance(found, RepeatedKeys):
        here = pointer + text_of(path)
        repeated = (key for key in found.repeated if len(key) <= MAX_KEY)
        problems.extend(Problem(pointer=here + step(key), value=key, rule="key must stand only once in its object") for key in repeated)
    return problems

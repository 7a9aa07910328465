"""Placeholders in a manifest: what they look like, where they stand, and how they are filled, typed and in the parsed structure.

A placeholder is `{{ name }}`, the name of letters, digits, '_' and '-', blanks around it allowed. Whatever else has braces is plain text. A
value is never looked at for placeholders, so it can't bring any in, and none can be left half made by another; whoever wants two braces in
a manifest gives them as a value.

Plain text are also stray braces (`}}`, `{{ .State }}`, `{{a,b},c}`), with one exception: two braces and a name with nothing behind it, or
with one brace (`{{ name`, `{{name}`), are a placeholder that somebody meant. A template with one is refused when it is made (`unclosed`).
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from shared.clusters.trees import Path, canonical, step, text_of
from shared.errors import Problem, TooLargeError

PLACEHOLDER: Final = re.compile(r"\{\{[ \t\r\n]*+([A-Za-z0-9_-]++)[ \t\r\n]*+\}\}")
_UNCLOSED: Final = re.compile(r"\{\{[ \t\r\n]*+([A-Za-z0-9_-]++)[ \t\r\n]*+(?:\}(?!\})|\Z)")
NAME: Final = re.compile(r"[A-Za-z0-9_-]+")


class Role(Enum):
    """What a placeholder is where it stands."""

    WHOLE = "whole"
    """All of a string: the value comes in its place, with its type."""
    PART = "part"
    """Part of a longer string, or of a key: the value is written into it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One placeholder: its name, and the JSON pointer of the string, or of the entry whose key it is in."""

    name: str
    pointer: str
    role: Role


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    """A manifest as far as it could be filled.

    `open` are the JSON pointers of what is undecided, since a value is missing or wrong: those strings stand as they were, and an object
    with such a key is undecided as a whole. `texts` are the places where a number or a boolean stands alone, and how JSON writes it.
    `origins` are the places that were made of values, a key's being that of its entry, with the names of the parameters.
    """

    manifest: Any
    problems: tuple[Problem, ...]
    open: frozenset[str]
    texts: Mapping[str, str]
    origins: Mapping[str, tuple[str, ...]]


def places(manifest: Any) -> Iterator[Place]:
    """Every placeholder of a checked tree, in the order of the document."""
    for text, path, is_key in _texts(manifest):
        whole = None if is_key else PLACEHOLDER.fullmatch(text)
        for match in [whole] if whole else PLACEHOLDER.finditer(text):
            yield Place(name=match[1], pointer=text_of(path), role=Role.WHOLE if whole else Role.PART)


def unclosed(manifest: Any) -> Iterator[Place]:
    """What was meant to be a placeholder, and is begun and not closed."""
    for text, path, _ in _texts(manifest):
        for match in _UNCLOSED.finditer(text):
            yield Place(name=match[1], pointer=text_of(path), role=Role.PART)


def _texts(manifest: Any) -> Iterator[tuple[str, Path, bool]]:
    """Every string of a tree with its path, and every key with that of its entry, which it tells; in the order of the document."""
    stack: list[tuple[Any, Path]] = [(manifest, None)]
    while stack:
        found, path = stack.pop()
        if isinstance(found, str):
            yield found, path, False
        elif isinstance(found, list):
            stack.extend(reversed([(item, (path, index)) for index, item in enumerate(found)]))
        elif isinstance(found, dict):
            for key in found:
                yield key, (path, key), True
            stack.extend(reversed([(item, (path, key)) for key, item in found.items()]))


def fill(
    manifest: Any, values: Mapping[str, Any], *, limit: int, pointer: str = "/manifest", values_pointer: str = "/parameters"
) -> Filled:
    """Put values in the place of placeholders; the manifest isn't changed, and shares nothing with what comes of it.

    What is wrong with a value is told where the value was given, under `values_pointer`. Raises TooLargeError, before anything is
    built, for values that would make more than `limit` bytes of it: one of a megabyte may stand in ten thousand places.
    """
    size = _least_size(manifest, values)
    if size > limit:
        raise TooLargeError("the manifest, filled with its parameters,", size, limit, pointer=values_pointer)
    filling = _Filling(values, pointer, values_pointer)
    filled = filling.node(manifest, None)
    return Filled(
        manifest=filled,
        problems=tuple(filling.problems.values()),
        open=frozenset(filling.open),
        texts=filling.texts,
        origins=filling.origins,
    )


def text_for(value: Any) -> str | None:
    """A value as it is written into a longer text: a string as it is, others as JSON writes them; None for what has no place there."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return None


def _least_size(manifest: Any, values: Mapping[str, Any]) -> int:
    """Bytes that values take in the filled manifest at least; what is left open takes none."""
    counts = Counter((place.name, place.role) for place in places(manifest) if place.name in values)
    total = 0
    for (name, role), times in counts.items():
        value = values[name]
        if role is Role.WHOLE:
            total += times * len(canonical(value))
        elif (text := text_for(value)) is not None:
            total += times * (len(canonical(text)) - 2)
    return total


@dataclass(slots=True)
class _Filling:
    values: Mapping[str, Any]
    base: str
    values_pointer: str
    problems: dict[str, Problem] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def node(self, found: Any, path: Path) -> Any:
        if isinstance(found, str):
            return self._text(found, path)
        if isinstance(found, list):
            return [self.node(item, (path, index)) for index, item in enumerate(found)]
        if isinstance(found, dict):
            return self._object(found, path)
        return found

    def _text(self, text: str, path: Path) -> Any:
        self._note_origin(text, path)
        whole = PLACEHOLDER.fullmatch(text)
        if whole is None:
            return self._written(text, path)
        if whole[1] not in self.values:
            self._leave(path)
            return text
        value = self.values[whole[1]]
        if isinstance(value, bool | int | float):
            self.texts[self._at(path)] = json.dumps(value)
        return copy.deepcopy(value)

    def _object(self, found: dict[str, Any], path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        origins: dict[str, str] = {}
        for key, item in found.items():
            written = self._written(key, path)
            if written in made:
                self._tell_of_twins(origins[written], key, written, path)
            origins[written] = key
            self._note_origin(key, (path, written))
            made[written] = self.node(item, (path, written))
        return made

    def _written(self, text: str, path: Path) -> str:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name not in self.values:
                self._leave(path)
                return match[0]
            written = text_for(self.values[name])
            if written is None:
                self._leave(path)
                self._tell(name, f"must be a string, a number or a boolean: it is written into a longer text at {self._at(path)}")
                return match[0]
            return written

        return PLACEHOLDER.sub(value, text)

    def _tell_of_twins(self, first: str, second: str, written: str, path: Path) -> None:
        self._leave(path)
        for name in dict.fromkeys(match[1] for key in (first, second) for match in PLACEHOLDER.finditer(key)):
            self._tell(name, f"makes the key '{written}' stand twice in the object at {self._at(path)}")

    def _tell(self, name: str, rule: str) -> None:
        pointer = self.values_pointer + step(name)
        self.problems.setdefault(pointer, Problem(pointer=pointer, value=self.values[name], rule=rule))

    def _note_origin(self, text: str, path: Path) -> None:
        names = tuple(match[1] for match in PLACEHOLDER.finditer(text) if match[1] in self.values)
        if names:
            at = self._at(path)
            self.origins[at] = (*self.origins.get(at, ()), *names)

    def _leave(self, path: Path) -> None:
        self.open.add(self._at(path))

    def _at(self, path: Path) -> str:
        return self.base + text_of(path)

"""A value together with its place, so that a rule reads the document and tells what is wrong in one breath.

Rules run even where the structure is wrong (that is told by the schema), so that all problems come at once: a field that is missing
or of another type reads as nothing instead of failing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shared.clusters.trees import Path, text_of
from shared.errors import MAX_PROBLEMS, InvalidError, Problem


class Report:
    """Collects the problems of one submission."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    def add(self, pointer: str, value: object, rule: str) -> None:
        """Note a problem; from the hundredth on there is no sense in looking further."""
        self._problems.append(Problem(pointer=pointer, value=value, rule=rule))
        if len(self._problems) >= MAX_PROBLEMS:
            self.finish()

    def finish(self) -> None:
        """Raise all problems, ordered by place, if there are any."""
        if self._problems:
            raise InvalidError(sorted(self._problems, key=lambda problem: problem.pointer))


class Field:
    """A value of the document, or the place where one is missing (value None, as Kubernetes takes a null)."""

    __slots__ = ("_base", "_path", "_report", "value")

    def __init__(self, value: Any, report: Report, base: str, path: Path = None) -> None:
        self.value = value
        self._report = report
        self._base = base
        self._path = path

    def __getitem__(self, key: str) -> Field:
        """Return the field of that name; of anything but an object, a missing one."""
        return self._at(self.value.get(key) if isinstance(self.value, dict) else None, key)

    def within(self, *keys: str) -> Field:
        """Return the field at the end of a chain of names."""
        found = self
        for key in keys:
            found = found[key]
        return found

    def items(self) -> Iterator[tuple[str, Field]]:
        """Yield the fields of an object with their names; nothing of anything else."""
        if isinstance(self.value, dict):
            for key, value in self.value.items():
                yield key, self._at(value, key)

    def elements(self) -> Iterator[Field]:
        """Yield the elements of an array; nothing of anything else."""
        if isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield self._at(value, index)

    @property
    def given(self) -> bool:
        """Whether there is a value."""
        return self.value is not None

    @property
    def text(self) -> str:
        """The value if it is a string, else an empty one."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def integer(self) -> int | None:
        """The value if it is an integer."""
        return self.value if isinstance(self.value, int) and not isinstance(self.value, bool) else None

    @property
    def pointer(self) -> str:
        """The JSON pointer of the place."""
        return self._base + text_of(self._path)

    def refuse(self, rule: str) -> None:
        """Note that the value here breaks a rule. Objects and arrays aren't shown: they may hold secrets, and their place says enough."""
        shown = None if isinstance(self.value, dict | list) else self.value
        self._report.add(self.pointer, shown, rule)

    def _at(self, value: Any, key: str | int) -> Field:
        return Field(value, self._report, self._base, (self._path, key))

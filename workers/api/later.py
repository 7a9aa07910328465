"""Services whose code is read when they are first used, so that a cold start doesn't pay for doors that it never opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


def later(make: Callable[[], T]) -> T:
    """Something that stands for what `make` gives, and calls it when it is first asked for an attribute."""
    return cast("T", _Later(make))


class _Later:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = self._make()
        return getattr(self._made, name)

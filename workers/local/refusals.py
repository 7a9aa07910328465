"""What an embedded fleet is not started with: options, settings and places that can't be used, told before anything is started."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """One of them: the option or the setting, what stands there, what is right."""

    field: str
    value: str
    rule: str

    def __str__(self) -> str:
        """All of it in one line."""
        return f"{self.field}: {self.value or '(empty)'}: {self.rule}"


class UnusableError(ValueError):
    """A fleet can't be started as it was asked for; `refusals` holds every reason."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("; ".join(map(str, refusals)))

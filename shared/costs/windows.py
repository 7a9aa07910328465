"""The windows of cost reports: those of the schedule, those that are asked for, and how a time is written in a report's key."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.costs.model import Window
from shared.errors import InvalidError, Problem

SHORTEST: Final = timedelta(minutes=5)
LONGEST: Final = timedelta(days=7)
"""What a report may cover, as in GCO."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORM: Final = "%Y%m%dT%H%M%SZ"


def stamp(moment: datetime) -> str:
    """A time as keys have it: `20260726T090000Z`."""
    return moment.astimezone(UTC).strftime(_FORM)


def from_stamp(text: str) -> datetime:
    """The time that `stamp` wrote. Raises ValueError."""
    return datetime.strptime(text, _FORM).replace(tzinfo=UTC)


def last_completed(now: datetime, length: timedelta) -> Window:
    """The last window of the schedule that is over. They begin at multiples of their length since 1970, UTC."""
    end = _EPOCH + (now - _EPOCH) // length * length
    return Window(end - length, end)


def next_due(now: datetime, length: timedelta) -> datetime:
    """When the window of the schedule that has `now` in it is over: its report is written after that."""
    return last_completed(now, length).end + length


def completed(since: datetime, now: datetime, length: timedelta) -> list[Window]:
    """The windows of the schedule that are over, oldest first: from the one that has `since` in it."""
    start, last = _EPOCH + (since - _EPOCH) // length * length, last_completed(now, length)
    return [Window(start + number * length, start + (number + 1) * length) for number in range((last.end - start) // length)]


def checked(window: Window, *, now: datetime) -> Window:
    """A window that a report may cover. Raises InvalidError: too short, too long, in the future, or not of whole seconds."""
    problems = []
    length = window.end - window.start
    if not SHORTEST <= length <= LONGEST:
        problems.append(Problem(pointer="/end", value=window.end.isoformat(), rule="must be from 5 minutes to 7 days after the start"))
    elif window.end > now:
        problems.append(Problem(pointer="/end", value=window.end.isoformat(), rule=f"must not be after now, {now.isoformat()}"))
    problems += [
        Problem(pointer=f"/{name}", value=moment.isoformat(), rule="must be a whole second")
        for name, moment in (("start", window.start), ("end", window.end))
        if moment.microsecond
    ]
    if problems:
        raise InvalidError(problems)
    return window


def last_hours(hours: int, *, now: datetime) -> Window:
    """The last hours up to now, which is cut to the second."""
    end = now.replace(microsecond=0)
    return Window(end - timedelta(hours=hours), end)


def holes(within: Window, covered: Iterable[Window]) -> list[Window]:
    """The parts of a window that no other covers, by time."""
    found: list[Window] = []
    reached = within.start
    for one in sorted(covered):
        if one.start > reached:
            found.append(Window(reached, min(one.start, within.end)))
        reached = max(reached, one.end)
        if reached >= within.end:
            return found
    found.append(Window(reached, within.end))
    return found

"""Which times a question about a range is answered for: slots from start to end, a step apart, and how far each looks back.

The rules are those of the AMD Resource Manager's metrics endpoints; the cap on points is Prometheus' own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from shared.errors import InvalidError, Problem

MOST_PAST: Final = timedelta(days=8)
"""How far back a range may begin, and how long it may be. CloudWatch keeps every minute for 15 days."""
AHEAD: Final = timedelta(minutes=1)
"""How far an end may be ahead of this clock: clocks differ."""
MOST_POINTS: Final = 11_000
"""Of one series: Prometheus refuses more."""
MINUTE: Final = 60
_HOUR: Final = 3600
_AUTOMATIC: Final = ((timedelta(hours=1), MINUTE), (timedelta(hours=24), 300), (MOST_PAST, _HOUR))
"""The longest span of each step that is chosen where none is given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slots:
    """The times `start + i * step` up to `end`, both of whole seconds; `step` in seconds."""

    start: datetime
    end: datetime
    step: int

    @property
    def times(self) -> list[datetime]:
        """All of them."""
        return [self.start + timedelta(seconds=index * self.step) for index in range(len(self))]

    def __len__(self) -> int:
        return int((self.end - self.start).total_seconds()) // self.step + 1

    @property
    def lookback(self) -> int:
        """The length of the window that ends at a slot, in seconds."""
        if self.step <= MINUTE:
            return MINUTE
        return 300 if self.step < _HOUR else _HOUR


def slots_of(start: object, end: object, step: object = None, *, now: datetime, also: tuple[Problem, ...] = ()) -> Slots:
    """The slots of a range. Times are aware datetimes or ISO 8601 texts with a zone, and cut to seconds; without a step one is chosen.

    Raises InvalidError with all that is wrong: fields `/start`, `/end`, `/step`, and the problems in `also`.
    """
    problems = list(also)
    begin, finish = (_moment(name, value, problems) for name, value in (("start", start), ("end", end)))
    seconds = _seconds(step, problems)
    if begin is not None and begin < now - MOST_PAST - timedelta(seconds=1):  # it was cut to a second
        problems.append(Problem(pointer="/start", value=begin.isoformat(), rule="must be within the last 8 days"))
    if finish is not None and finish > now + AHEAD:
        problems.append(Problem(pointer="/end", value=finish.isoformat(), rule="must not be more than a minute from now"))
    if begin is not None and finish is not None:
        _check_span(begin, finish, seconds, problems)
    if problems or begin is None or finish is None:
        raise InvalidError(problems)
    return Slots(start=begin, end=finish, step=seconds or _automatic(finish - begin))


def instant_of(at: object, *, now: datetime, also: tuple[Problem, ...] = ()) -> datetime:
    """The time of an instant (None: now), as those of a range are. Raises InvalidError: field `/at`, and the problems in `also`."""
    problems = list(also)
    found = _moment("at", now if at is None else at, problems)
    if found is not None and not now - MOST_PAST - timedelta(seconds=1) <= found <= now + AHEAD:
        problems.append(Problem(pointer="/at", value=found.isoformat(), rule="must be within the last 8 days"))
    if problems or found is None:
        raise InvalidError(problems)
    return found


def _check_span(begin: datetime, finish: datetime, seconds: int | None, problems: list[Problem]) -> None:
    span = finish - begin
    if span <= timedelta(0):
        problems.append(Problem(pointer="/end", value=finish.isoformat(), rule=f"must be after the start, {begin.isoformat()}"))
    elif span > MOST_PAST:
        problems.append(Problem(pointer="/end", value=finish.isoformat(), rule="must be at most 8 days after the start"))
    elif seconds is not None and int(span.total_seconds()) // seconds + 1 > MOST_POINTS:
        least = -(-int(span.total_seconds()) // (MOST_POINTS - 1))
        rule = f"must give at most {MOST_POINTS} points; for this range that is a step of {least} seconds or more"
        problems.append(Problem(pointer="/step", value=seconds, rule=rule))


def _moment(name: str, value: object, problems: list[Problem]) -> datetime | None:
    found: Any = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            found = None
    if not isinstance(found, datetime):
        shown = value if isinstance(value, str) else None
        problems.append(Problem(pointer=f"/{name}", value=shown, rule="must be a time in ISO 8601, such as 2026-01-31T12:00:00Z"))
        return None
    if found.tzinfo is None:
        problems.append(Problem(pointer=f"/{name}", value=found.isoformat(), rule="must name its time zone, such as Z or +02:00"))
        return None
    try:
        return found.astimezone(UTC).replace(microsecond=0)
    except OverflowError:
        problems.append(Problem(pointer=f"/{name}", value=found.isoformat(), rule="must be a time between the years 1 and 9999 in UTC"))
        return None


def _seconds(step: object, problems: list[Problem]) -> int | None:
    if step is None:
        return None
    if not isinstance(step, int) or isinstance(step, bool) or step < 1:
        problems.append(Problem(pointer="/step", value=step, rule="must be a whole number of seconds, at least 1"))
        return None
    return step


def _automatic(span: timedelta) -> int:
    return next(step for longest, step in _AUTOMATIC if span <= longest)

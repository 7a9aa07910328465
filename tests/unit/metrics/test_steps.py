"""Ranges and steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from shared.errors import InvalidError
from shared.metrics.steps import MOST_POINTS, instant_of, slots_of

NOW = datetime(2026, 3, 10, 12, 0, 0, 500_000, tzinfo=UTC)
HOUR = timedelta(hours=1)


def refused(*args, **options) -> dict[str, str]:
    with pytest.raises(InvalidError) as refusal:
        slots_of(*args, now=NOW, **options)
    return {problem.pointer: problem.rule for problem in refusal.value.problems}


@pytest.mark.parametrize(
    ("span", "step", "points"),
    [
        (HOUR, 60, 61),
        (HOUR + timedelta(seconds=1), 300, 13),
        (24 * HOUR, 300, 289),
        (24 * HOUR + timedelta(seconds=1), 3600, 25),
        (7 * 24 * HOUR, 3600, 169),
        (8 * 24 * HOUR, 3600, 193),
    ],
)
def test_a_step_is_chosen_by_the_span(span, step, points):
    slots = slots_of(NOW - span, NOW, now=NOW)
    assert (slots.step, len(slots), len(slots.times)) == (step, points, points)


def test_times_are_cut_to_seconds_and_slots_begin_at_the_start():
    slots = slots_of("2026-03-10T12:30:07.9+01:30", "2026-03-10T11:02:00Z", 45, now=NOW)
    assert slots.times == [datetime(2026, 3, 10, 11, 0, 7, tzinfo=UTC), datetime(2026, 3, 10, 11, 0, 52, tzinfo=UTC),
                           datetime(2026, 3, 10, 11, 1, 37, tzinfo=UTC)]  # fmt: skip


@pytest.mark.parametrize(("step", "lookback"), [(1, 60), (60, 60), (61, 300), (3599, 300), (3600, 3600), (7200, 3600)])
def test_windows_are_a_minute_five_or_an_hour(step, lookback):
    assert slots_of(NOW - 2 * HOUR, NOW, step, now=NOW).lookback == lookback


def test_all_that_is_wrong_is_told_at_once():
    assert set(refused("yesterday", datetime(2026, 3, 10, 12), 0)) == {"/start", "/end", "/step"}  # noqa: DTZ001


@pytest.mark.parametrize("step", [0, -60, 1.5, True, "60"])
def test_a_step_is_a_whole_number(step):
    assert set(refused(NOW - HOUR, NOW, step)) == {"/step"}


@pytest.mark.parametrize(
    ("start", "end", "pointer", "rule"),
    [
        (NOW, NOW, "/end", "must be after the start, 2026-03-10T12:00:00+00:00"),
        (NOW, NOW - HOUR, "/end", "must be after the start, 2026-03-10T12:00:00+00:00"),
        (NOW - timedelta(days=8, seconds=2), NOW - HOUR, "/start", "must be within the last 8 days"),
        (NOW - HOUR, NOW + timedelta(seconds=61), "/end", "must not be more than a minute from now"),
        (NOW - timedelta(days=8), NOW + timedelta(seconds=30), "/end", "must be at most 8 days after the start"),
        ("2026-03-10T11:00:00", NOW, "/start", "must name its time zone, such as Z or +02:00"),
        (None, NOW, "/start", "must be a time in ISO 8601, such as 2026-01-31T12:00:00Z"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), NOW, "/start", "must be a time between the years 1 and 9999 in UTC"),
    ],
)
def test_the_rules_of_a_range(start, end, pointer, rule):
    assert refused(start, end)[pointer] == rule


def test_eight_days_and_a_minute_ahead_are_allowed():
    assert len(slots_of(NOW - timedelta(days=8), NOW, now=NOW)) == 193
    assert slots_of(NOW, NOW + timedelta(seconds=60), now=NOW)


def test_no_more_points_than_prometheus_gives():
    assert len(slots_of(NOW - timedelta(seconds=MOST_POINTS - 1), NOW, 1, now=NOW)) == MOST_POINTS
    assert "step of 63 seconds or more" in refused(NOW - timedelta(days=8), NOW, 1)["/step"]
    assert len(slots_of(NOW - timedelta(days=8), NOW, 63, now=NOW)) <= MOST_POINTS
    assert "step of 2 seconds" in refused(NOW - timedelta(seconds=MOST_POINTS), NOW, 1)["/step"]


def test_an_instant_is_now_unless_said():
    assert instant_of(None, now=NOW) == NOW.replace(microsecond=0)
    with pytest.raises(InvalidError, match="/at"):
        instant_of(NOW - timedelta(days=9), now=NOW)

"""Windows of time, and sums of which no digit is lost."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from shared.costs.model import Window, exact_sum, seconds
from shared.errors import InvalidError
from tests.unit.costs.builders import at, window


def test_a_window_is_kept_in_utc():
    east = timezone(timedelta(hours=2))
    found = Window(datetime(2026, 5, 17, 11, tzinfo=east), datetime(2026, 5, 17, 12, tzinfo=east))
    assert found == window("09:00", "10:00")
    assert found.start.tzinfo is UTC
    assert found.seconds == 3600


@pytest.mark.parametrize(
    ("start", "end", "field"),
    [
        (datetime(2026, 5, 17), at("10:00"), "/start"),  # noqa: DTZ001 - what is refused
        (at("09:00"), datetime(2026, 5, 17, 10), "/end"),  # noqa: DTZ001 - as above
        (at("09:00"), at("09:00"), "/end"),
        (at("09:00"), at("08:00"), "/end"),
    ],
)
def test_a_window_without_zones_or_time_is_refused(start, end, field):
    with pytest.raises(InvalidError) as raised:
        Window(start, end)
    assert raised.value.problems[0].pointer == field


def test_a_window_holds_its_start_and_not_its_end():
    hour = window("09:00", "10:00")
    assert hour.holds(at("09:00"))
    assert not hour.holds(at("10:00"))
    assert hour.overlap(at("08:00"), None) == (at("09:00"), at("10:00"))
    assert hour.overlap(at("09:10"), at("09:20")) == (at("09:10"), at("09:20"))
    assert hour.overlap(at("10:00"), None) is None
    assert hour.overlap(at("09:30"), at("09:20")) is None


def test_seconds_are_exact():
    assert seconds(timedelta(days=1, microseconds=1)) == Decimal("86400.000001")


def test_an_exact_sum_loses_no_digit():
    assert exact_sum([Decimal(1000), Decimal("1e-40")]) == Decimal("1000." + "0" * 39 + "1")

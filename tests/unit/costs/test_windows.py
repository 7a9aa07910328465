"""Windows of the schedule, windows that are asked for, and keys."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.costs.model import Window
from shared.costs.report_keys import ReportKeys
from shared.costs.windows import checked, completed, from_stamp, holes, last_completed, last_hours, stamp
from shared.errors import InvalidError
from tests.unit.costs.builders import REGION, at, window

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
times = st.integers(0, 3_000_000_000_000).map(lambda number: EPOCH + timedelta(milliseconds=number))
minutes = st.integers(5, 1440)


@pytest.mark.parametrize(
    ("now", "length", "expected"),
    [
        ("10:00", 60, ("09:00", "10:00")),
        ("10:59:59.999999", 60, ("09:00", "10:00")),
        ("11:00", 60, ("10:00", "11:00")),
        ("10:07", 5, ("10:00", "10:05")),
        ("00:10", 15, ("23:45", "00:00")),
    ],
)
def test_the_last_window_that_is_over(now, length, expected):
    found = last_completed(at(now), timedelta(minutes=length))
    assert (f"{found.start:%H:%M}", f"{found.end:%H:%M}") == expected


def test_a_day_s_windows_are_days_of_utc():
    found = last_completed(at("10:00"), timedelta(days=1))
    assert found == Window(at("00:00", day=16), at("00:00"))


@given(now=times, length=minutes)
def test_windows_begin_at_multiples_of_their_length_since_1970(now, length):
    span = timedelta(minutes=length)
    found = last_completed(now, span)
    assert found.end - found.start == span
    assert (found.start - EPOCH) % span == timedelta(0)
    assert found.end <= now < found.end + span


@given(since=times, hours=st.integers(0, 48), length=minutes)
def test_completed_windows_follow_one_another_from_the_one_that_has_the_beginning(since, hours, length):
    span = timedelta(minutes=length)
    now = since + timedelta(hours=hours)
    found = completed(since, now, span)
    assert all(before.end == after.start for before, after in pairwise(found))
    if found:
        assert found[0].holds(since)
        assert found[-1] == last_completed(now, span)
    else:
        assert last_completed(now, span).end <= since


@given(moment=times)
def test_a_stamp_is_read_as_it_was_written_to_the_second(moment):
    assert from_stamp(stamp(moment)) == moment.replace(microsecond=0)


def test_a_stamp_is_of_utc():
    assert stamp(datetime.fromisoformat("2026-07-26T11:00:00+02:00")) == "20260726T090000Z"


@pytest.mark.parametrize(("start", "end"), [("10:00", "10:05"), ("10:00:01", "11:00:01")])
def test_windows_that_a_report_may_cover(start, end):
    assert checked(window(start, end), now=at("12:00")) == window(start, end)


@pytest.mark.parametrize(
    ("start", "end", "pointer"),
    [
        (at("10:00"), at("10:04:59"), "/end"),
        (at("10:00", day=1), at("10:00:01", day=8), "/end"),
        (at("11:00"), at("12:00:01"), "/end"),
        (at("10:00:00.5"), at("11:00"), "/start"),
    ],
)
def test_windows_that_none_may(start, end, pointer):
    with pytest.raises(InvalidError) as raised:
        checked(Window(start, end), now=at("12:00"))
    assert [problem.pointer for problem in raised.value.problems] == [pointer]


def test_the_last_hours_end_at_a_whole_second():
    assert last_hours(2, now=at("12:00:00.7")) == window("10:00", "12:00")


@pytest.mark.parametrize(
    ("covered", "expected"),
    [
        ([], [("10:00", "12:00")]),
        ([("10:00", "12:00")], []),
        ([("11:00", "12:00"), ("10:00", "11:00")], []),
        ([("09:00", "10:30"), ("11:00", "13:00")], [("10:30", "11:00")]),
        ([("10:30", "11:30"), ("10:40", "10:50")], [("10:00", "10:30"), ("11:30", "12:00")]),
        ([("08:00", "09:00")], [("10:00", "12:00")]),
        ([("13:00", "14:00")], [("10:00", "12:00")]),
    ],
)
def test_what_is_not_covered(covered, expected):
    found = holes(window("10:00", "12:00"), [window(*one) for one in covered])
    assert found == [window(*one) for one in expected]


def test_keys_are_those_of_gco_and_read_back():
    keys = ReportKeys.scheduled(REGION, Window(at("23:00"), at("00:00", day=18)))
    assert keys.allocation == "reports/region=us-east-1/date=2026-05-17/allocation-20260517T230000Z-20260518T000000Z.parquet"
    assert keys.jobs == "jobs/region=us-east-1/date=2026-05-17/jobs-20260517T230000Z-20260518T000000Z.parquet"
    assert keys.summary == "summaries/region=us-east-1/date=2026-05-17/summary-20260517T230000Z-20260518T000000Z.json"
    assert ReportKeys.parse(keys.allocation) == keys


def test_keys_of_what_was_asked_for_have_the_day_on_which_it_was():
    keys = ReportKeys(region=REGION, window=window("10:00", "11:00"), day=at("09:00", day=19).date(), nonce="0badcafe")
    assert keys.allocation == "adhoc/region=us-east-1/date=2026-05-19/allocation-20260517T100000Z-20260517T110000Z-0badcafe.parquet"
    assert keys.jobs.startswith("adhoc-jobs/")
    assert ReportKeys.parse(keys.allocation) == keys


@pytest.mark.parametrize(
    "key",
    [
        "",
        "reports/region=us-east-1/date=2026-05-17/jobs-20260517T230000Z-20260518T000000Z.parquet",
        "reports/region=us-east-1/date=2026-05-17/allocation-20260517T230000Z-20260518T000000Z-0badcafe.parquet",
        "adhoc/region=us-east-1/date=2026-05-17/allocation-20260517T230000Z-20260518T000000Z.parquet",
        "reports/region=us-east-1/date=2026-02-30/allocation-20260517T230000Z-20260518T000000Z.parquet",
        "reports/region=us-east-1/date=2026-05-17/allocation-20260517T230000Z-20260517T230000Z.parquet",
        "reports/region=us-east-1/date=2026-05-17/allocation-20260517T256000Z-20260518T000000Z.parquet",
        "reports/region=../date=2026-05-17/allocation-20260517T230000Z-20260518T000000Z.parquet",
    ],
)
def test_other_keys_are_none_of_a_report(key):
    assert ReportKeys.parse(key) is None

"""Lines of a log: how they are cut, dated, and told from those that were seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.clusters.log_lines import CUT, LineSplitter, Mark, Unseen, dated, nanoseconds, passed, undated
from shared.clusters.log_positions import Position, container_key, decode, job_key
from shared.errors import InvalidError


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:01.000000002Z", 1_000_000_002),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T02:00:01.25+02:00", 1_250_000_000),
        ("1969-12-31T22:00:01.25-02:00", 1_250_000_000),
        ("2026-05-17T12:00:00.123456789Z", 1_779_019_200_123_456_789),
    ],
)
def test_a_time_is_read_to_the_nanosecond(stamp, at):
    assert nanoseconds(stamp) == at


@pytest.mark.parametrize(
    "stamp",
    ["", "unable", "2026-05-17", "2026-05-17T12:00:00", "2026-05-17T12:00:00.Z", "2026-05-17T12:00:00.1234567890Z", "2026-13-17T12:00:00Z"],
)
def test_what_is_no_time_is_none(stamp):
    assert nanoseconds(stamp) is None


def test_the_words_of_the_kubelet_are_no_lines():
    lines, others = dated([b"1970-01-01T00:00:01Z one", b"unable to retrieve container logs", b"1970-01-01T00:00:02Z ", b""])

    assert [(line.at, line.text) for line in lines] == [(1_000_000_000, "one"), (2_000_000_000, "")]
    assert others == ["unable to retrieve container logs"]


def test_a_line_can_be_had_without_its_time():
    assert undated(b"1970-01-01T00:00:01Z one two") == b"one two"
    assert undated(b"one two") == b"one two"


@given(st.lists(st.binary(max_size=5)), st.binary())
def test_pieces_of_any_size_make_the_same_lines(pieces, rest):
    splitter = LineSplitter()
    lines = [line for piece in [*pieces, rest] for line in splitter.feed(piece)]

    assert b"\n".join([*lines, splitter.rest()]) == b"".join([*pieces, rest])


def test_a_line_without_end_is_held_no_longer_than_allowed():
    splitter = LineSplitter(longest=10)
    for _ in range(100):
        assert splitter.feed(b"abcd") == []

    assert splitter.feed(b"\nnext\n") == [b"abcdabcdab" + CUT.encode(), b"next"]


times = st.lists(st.integers(min_value=0, max_value=6), max_size=30)


@given(times, st.integers(min_value=0, max_value=30))
def test_a_log_in_any_order_is_gone_on_with_exactly(at, cut):
    """Lines may be dated before others that stand behind them; a reader who saw the first part sees the second, and nothing else."""
    mark = None
    for moment in at[:cut]:
        mark = passed(mark, moment)

    unseen = Unseen(mark)

    assert [unseen.take(moment) for moment in at] == [False] * len(at[:cut]) + [True] * len(at[cut:])


@given(times.map(sorted), st.integers(min_value=0, max_value=30), st.integers(min_value=0, max_value=30))
def test_of_a_rotated_log_what_is_younger_is_new(at, cut, gone):
    mark = None
    for moment in at[:cut]:
        mark = passed(mark, moment)
    unseen = Unseen(mark)
    left = list(enumerate(at))[min(gone, cut) :]

    new = [number for number, moment in left if unseen.take(moment)]

    younger = [number for number, moment in left if mark is None or moment > mark.at]
    assert set(younger) <= set(new) <= {number for number, _ in left if number >= cut}


def test_a_log_is_read_again_from_a_second_before():
    assert Mark(5_900_000_000, 1).since.timestamp() == 4
    assert Mark(0, 1).since.timestamp() == 0


def test_a_position_goes_over_the_wire():
    position = Position(job=job_key("uid"), begun=7, since=8, drained=9, marks={container_key("pod", "main"): Mark(2**63, 3)})

    assert decode(position.encode()) == position
    assert decode(Position(job=job_key("uid")).encode()) == Position(job=job_key("uid"))


def test_a_position_of_many_containers_fits_into_a_header():
    marks = {container_key(f"pod-{number}", "main"): Mark(1_800_000_000_000_000_000, 1) for number in range(200)}

    assert len(Position(job=job_key("uid"), marks=marks).encode()) < 8192


@pytest.mark.parametrize("text", ["", "x", "AAAA", "é", "=", "A" * 100_000, Position(job=job_key("u")).encode()[:-2], "Ag" + "A" * 40])
def test_what_is_no_position_is_refused(text):
    with pytest.raises(InvalidError) as refused:
        decode(text)

    assert refused.value.problems[0].pointer == "/last_event_id"

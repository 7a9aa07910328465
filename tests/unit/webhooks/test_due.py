"""Which of the marks that a process writes it wakes up for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from shared.webhooks.due import DueMarks

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return NOW + timedelta(seconds=seconds)


def test_nothing_is_waited_for_when_nothing_was_written_that_is_due():
    marks = DueMarks()
    marks.note(None)
    marks.look()
    assert (marks.following(NOW), marks.earlier.is_set()) == (None, False)


def test_the_earliest_mark_counts_and_only_an_earlier_one_wakes():
    marks = DueMarks()
    marks.look()
    for seconds, wakes in ((30, True), (40, False), (20, True), (20, False)):
        marks.earlier.clear()
        marks.note(at(seconds))
        assert marks.earlier.is_set() is wakes
    assert marks.following(NOW) == at(20)


def test_a_mark_from_just_before_a_look_is_remembered_until_the_next_and_one_that_was_due_is_not():
    marks = DueMarks()
    marks.note(at(10))
    marks.look()
    assert marks.following(NOW) == at(10)
    assert marks.following(at(10)) is None
    marks.note(at(30))
    assert marks.following(NOW) == at(10)
    marks.look()
    assert marks.following(NOW) == at(30)
    marks.look()
    assert marks.following(NOW) is None

"""Errors as lines of text, which people read and which must not speak of Python."""

from __future__ import annotations

import pytest

from shared.errors import NotFoundError, Problem


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (None, "/a: must be so"),
        ("a b", '/a: "a b": must be so'),
        (True, "/a: true: must be so"),
        (5, "/a: 5: must be so"),
        ({"secret": 1}, "/a: must be so"),
        (b"\xff", "/a: must be so"),
        ("é", '/a: "é": must be so'),
    ],
)
def test_a_problem_in_one_line_shows_its_value_as_json(value, line):
    assert str(Problem(pointer="/a", value=value, rule="must be so")) == line


def test_the_whole_document_is_a_slash():
    assert str(Problem(pointer="", value=None, rule="must be JSON, and is empty")) == "/: must be JSON, and is empty"


def test_what_there_is_instead_stands_outside_of_the_name():
    assert str(NotFoundError("Queue", "nope", hint="the queues are a, b")) == "Queue 'nope' not found (the queues are a, b)"

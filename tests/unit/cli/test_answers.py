"""The shapes in which an API tells of faults, as lines of field, value, rule."""

import json
from typing import Any

import pytest

from workers.cli.answers import error_of


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"detail": [{"pointer": "/a/b", "input": "x", "msg": "must be y"}]}, "/a/b: x: must be y"),
        ({"detail": [{"loc": ["body", "a", 0], "input": 1, "msg": "must be y"}]}, "/a/0: 1: must be y"),
        ({"detail": [{"loc": ["query", "limit"], "input": "0", "msg": "too small"}]}, "/query/limit: 0: too small"),
        ({"problems": [{"pointer": "", "value": None, "rule": "must be JSON"}]}, "/: must be JSON"),
        ({"detail": {"errors": [{"field": "f", "value": [1], "message": "no"}]}}, "f: [1]: no"),
        ({"errors": ["plain"]}, "plain"),
    ],
)
def test_a_fault_is_one_line(document: dict[str, Any], line: str) -> None:
    assert [str(fault) for fault in error_of(422, json.dumps(document).encode()).faults] == [line]


def test_a_long_value_is_cut() -> None:
    body = json.dumps({"detail": [{"pointer": "/a", "input": "x" * 500, "msg": "m"}]}).encode()

    (fault,) = error_of(422, body).faults

    assert len(fault.value) == 120
    assert fault.value.endswith("...")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'"text"', b"{}", b"\xff"])
def test_an_answer_of_another_shape_still_becomes_an_error(body: bytes) -> None:
    error = error_of(500, body)

    assert "500" in error.message
    assert error.code == 1

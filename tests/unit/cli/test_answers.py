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
    assert [str(fault) for fault in error_of(422, json.dumps(document).encode(), api="http://x").faults] == [line]


def test_a_long_value_is_cut() -> None:
    body = json.dumps({"detail": [{"pointer": "/a", "input": "x" * 500, "msg": "m"}]}).encode()

    (fault,) = error_of(422, body, api="http://x").faults

    assert len(fault.value) == 120
    assert fault.value.endswith("…")


@pytest.mark.parametrize("body", [b"[]", b"null", b'"text"', b"{}"])
def test_an_answer_of_another_shape_still_becomes_an_error(body: bytes) -> None:
    error = error_of(500, body, api="http://x")

    assert "500" in error.message
    assert error.code == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("status", [301, 400, 404, 500, 501])
def test_an_answer_that_is_no_json_is_of_no_gpufleet(status: int, body: bytes) -> None:
    error = error_of(status, body, api="http://x")

    assert error.message.startswith("http://x: this is not a gpufleet API: ")
    assert str(status) in error.message
    assert error.code == 5


@pytest.mark.parametrize(
    ("detail", "code"), [("Not Found", 5), ("Not Found: there is nothing at /x", 5), (["x"], 5), (None, 5), ("Job 'x' not found", 3)]
)
def test_a_missing_path_is_no_missing_thing(detail: Any, code: int) -> None:
    assert error_of(404, json.dumps({"detail": detail}).encode(), api="http://x").code == code


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(("options_only", "code"), [(True, 2), (False, 1)])
def test_options_that_break_a_rule_are_bad_usage_and_a_refusal_is_a_failure(status: int, options_only: bool, code: int) -> None:
    body = json.dumps({"detail": [{"pointer": "/status", "input": "x", "msg": "must be a status"}]}).encode()

    assert error_of(status, body, api="http://x", options_only=options_only).code == code

"""Text from outside as people see it: nothing in it steers the terminal or turns the order of reading."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.cli.conftest import FakeApi, detail, job
from workers.cli import output
from workers.cli.failures import shown

Run = Callable[..., int]

HOSTILE = "\x1b]0;owned\x07 \u202egpj.exe\u2066 \x9b31m a\nb\tc\r"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("plain", "plain"),
        ("größe 模型 👩‍🔬", "größe 模型 👩‍🔬"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\t\x7f\x9b", "a\\nb\\t\\x7f\\x9b"),
        ("\u202e\u2066\u200e\u2028", "\\u202e\\u2066\\u200e\\u2028"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_steers_is_shown_as_an_escape(text: str, told: str) -> None:
    assert output.safe(text) == told


@pytest.mark.parametrize(
    "command", [["jobs", "--wide"], ["job", "job-1"], ["events", "job-1"], ["rejections"], ["dead-letters", "list", "q"]]
)
def test_no_command_for_people_prints_it_raw(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    executions = [{"number": 1, "reason": HOSTILE, "message": HOSTILE, "object": {"name": HOSTILE}}]
    api.on(
        "GET", "/fleet/v1/jobs/job-1", detail("failed", message=HOSTILE, reason=HOSTILE, labels={HOSTILE: HOSTILE}, executions=executions)
    )
    jobs = [job(1, labels={"a": HOSTILE}, error_message=HOSTILE, job_name=HOSTILE, submitted_at=HOSTILE)]
    api.on("GET", "/api/v1/queue/jobs", {"jobs": jobs, "next_cursor": HOSTILE})
    api.on("GET", "/fleet/v1/jobs/job-1/events", {"events": [{"number": 1, "type": HOSTILE, "reason": HOSTILE, "at": HOSTILE}]})
    rejection = {"id": HOSTILE, "reference": HOSTILE, "reason": HOSTILE}
    api.on("GET", "/fleet/v1/rejections", {"rejections": [rejection], "next_cursor": HOSTILE})
    letter = {"id": HOSTILE, "body": json.dumps({"reference": HOSTILE}), "attributes": {"reason": HOSTILE}}
    api.on("GET", "/fleet/v1/dead-letters/q", {"dead_letters": [letter]})

    assert gpufleet(*command) == 0

    printed = capsys.readouterr()
    assert "owned" in printed.out
    for bad in "\x1b\x07\u202e\u2066\x9b\r":
        assert bad not in printed.out + printed.err


def test_an_error_of_the_api_is_not_printed_raw(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1", {"detail": [{"pointer": HOSTILE, "input": HOSTILE, "msg": HOSTILE}]}, status=422)

    gpufleet("job", "job-1")

    assert "\x1b" not in capsys.readouterr().err


def test_json_means_the_same_and_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_json({"text": HOSTILE + "\udcffé"})

    printed = capsys.readouterr().out
    assert json.loads(printed) == {"text": HOSTILE + "\udcffé"}
    assert not set("\x1b\u202e\x9b\udcff") & set(printed)


def test_a_long_cell_is_cut_with_an_ellipsis(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/api/v1/queue/jobs", {"jobs": [job(1, error_message="x" * 5000)], "next_cursor": None})

    gpufleet("jobs")

    assert capsys.readouterr().out.rstrip().endswith("x" * 119 + "…")
    assert "x" * 120 not in capsys.readouterr().out


def test_a_log_stays_as_it_is_for_a_program_and_keeps_its_colours_alone_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "\x1b[31mred\x1b[0m\t\x1b]0;owned\x07"

    output.write_log(line)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.write_log(line)

    raw, made_safe = capsys.readouterr().out.splitlines()
    assert raw == line
    assert made_safe == "\x1b[31mred\x1b[0m\t\\x1b]0;owned\\x07\x1b[0m"


@pytest.mark.parametrize(
    ("value", "told"), [(None, ""), (b"\xff\xfe", "ff fe"), ("x", "x"), (True, "true"), ([1], "[1]"), ("x" * 130, "x" * 119 + "…")]
)
def test_a_value_is_told_as_it_was_written(value: Any, told: str) -> None:
    assert shown(value) == told

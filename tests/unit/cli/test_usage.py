"""What is wrong with a command line is told in one line as any other fault: the option, what was given, what it must be."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Run = Callable[..., int]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["metrics", "top", "--by", "nonsense"], "--by: nonsense: must be one of 'gpu', 'job', 'node', 'namespace', 'project', 'region' ("),
        (["costs", "report", "--hours", "200"], "--hours: 200: must be at most 168 ("),
        (["costs", "report", "--hours", "many"], "--hours: many: must be a whole number ("),
        (["jobs", "--limit=0"], "--limit: 0: must be at least 1 ("),
        (["jobs", "--limit"], "--limit: must have a value"),
        (["jobs", "--limt", "3"], "--limt: must be an option of this command (Possible options: --limit) ("),
        (["jobs", "--nonsense"], "--nonsense: must be an option of this command ("),
        (["jobs", "--json=yes"], "--json: must be without a value"),
        (["job"], "ID: must be given ("),
        (["submit"], "FILE…: must be given ("),
        (["webhooks", "create", "https://x.example"], "--event: must be given ("),
        (["stats", "x", "y"], "x y: must be left out: more was given than the command takes ("),
        (["nonsense"], "nonsense: must be a command that there is (gpufleet --help tells more)"),
        (["webhooks", "nonsense"], "nonsense: must be a command that there is (gpufleet webhooks --help tells more)"),
        (["webhooks", "redeliver", "x"], "either a delivery's id or --failed must be given"),
        (["webhooks", "redeliver", "x", "y#1", "--since", "2d"], "--since: 2d: must be given with --failed only"),
        (["dead-letters", "redrive", "dispatch"], "either ids of messages or --all must be given"),
    ],
)
def test_a_command_line_that_is_not_right_is_told_what_it_must_be(
    gpufleet: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert gpufleet(*arguments) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {told}")
    assert printed.err.count("\n") == 1


def test_programs_are_told_the_same_apart(gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpufleet("jobs", "--limit", "0", "--json") == 2

    [fault] = json.loads(capsys.readouterr().out)["error"]["faults"]
    assert fault == {"field": "--limit", "value": "0", "rule": "must be at least 1 (gpufleet jobs --help tells more)"}

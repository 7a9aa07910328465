"""The reading commands, and those that settle things."""

import json
import subprocess
import sys
from collections.abc import Callable

import httpx
import pytest

from tests.unit.cli.conftest import FakeApi, detail

Run = Callable[..., int]
LETTERS = "/fleet/v1/dead-letters"


def test_a_job_is_shown_with_its_executions(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    executions = [{"number": 1, "state": "failed", "region": "us-east-1", "reason": "exit code 1", "object": {"name": "train-abc-1"}}]
    api.on("GET", "/fleet/v1/jobs/job-1", detail("running", executions=executions, labels={"team": "x"}))

    assert gpufleet("job", "job-1") == 0

    printed = capsys.readouterr().out
    assert "running" in printed
    assert "team=x" in printed
    assert "train-abc-1" in printed


def test_logs_are_written_as_they_come(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1/logs", httpx.Response(200, text="[bold]one[/]\ntwo\n"))

    assert gpufleet("logs", "job-1", "--follow", "--execution", "2", "--tail", "5") == 0

    assert capsys.readouterr().out == "[bold]one[/]\ntwo\n"
    assert dict(api.requests[0].url.params) == {"follow": "true", "execution": "2", "tail": "5"}


def test_logs_as_json_are_one_document(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1/logs", httpx.Response(200, text="one\ntwo\n"))

    assert gpufleet("logs", "job-1", "--json") == 0

    assert json.loads(capsys.readouterr().out)["lines"] == ["one", "two"]


def test_logs_that_are_not_there_are_exit_code_3(api: FakeApi, gpufleet: Run) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1/logs", {"detail": "Log 'job-1' not found"}, status=404)

    assert gpufleet("logs", "job-1") == 3


def test_an_id_with_odd_characters_stays_one_part_of_the_path(api: FakeApi, gpufleet: Run) -> None:
    gpufleet("job", "../../x?y#z")

    assert api.requests[0].url.raw_path == b"/fleet/v1/jobs/..%2F..%2Fx%3Fy%23z"


def test_cancel_says_what_the_api_said(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("DELETE", "/api/v1/queue/jobs/job-1", {"message": "Job 'job-1' cancelled"})

    assert gpufleet("cancel", "job-1", "--reason", "no longer wanted") == 0

    assert capsys.readouterr().out == "Job 'job-1' cancelled\n"
    assert api.requests[0].url.params["reason"] == "no longer wanted"


def test_a_rejection_is_shown_with_every_fault(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    problems = [{"pointer": f"/manifest/{name}", "value": "1", "rule": "must be good"} for name in "ab"]
    one = {"id": "m1", "reason": "refused", "problems": problems, "message_id": "m1", "reference": "mine", "excerpt": "{}"}
    api.on("GET", "/fleet/v1/rejections", {"rejections": [one], "next_cursor": None})
    api.on("GET", "/fleet/v1/rejections/m1", one)

    assert gpufleet("rejections") == 0
    assert "/manifest/a: must be good (and 1 more)" in capsys.readouterr().out
    assert gpufleet("rejections", "m1") == 0
    assert "/manifest/b: 1: must be good" in capsys.readouterr().out


def test_dead_letters_of_all_queues_and_of_one(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", LETTERS, {"queues": [{"queue": "q", "dead_letters": 2}]})
    api.on("GET", f"{LETTERS}/q", {"dead_letters": [{"id": "m1", "body": "{broken", "attributes": {"reason": "no JSON"}}]})

    assert gpufleet("dead-letters", "list") == 0
    assert gpufleet("dead-letters", "list", "q") == 0

    printed = capsys.readouterr().out
    assert "no JSON" in printed
    assert "{broken" in printed


def test_settling_all_goes_in_batches_of_the_ids_that_are_there(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [f"m{number}" for number in range(150)]
    api.on("GET", f"{LETTERS}/q", {"dead_letters": [{"id": one} for one in ids]})
    api.on("POST", f"{LETTERS}/q/redrive", {"queue": "q", "count": 1, "message_ids": []})

    assert gpufleet("dead-letters", "redrive", "q", "--all") == 0

    assert [len(body["message_ids"]) for body in api.bodies()] == [100, 50]
    assert capsys.readouterr().out == "150 dead letters sent back to q\n"


def test_what_is_said_in_a_record_is_no_markup(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1", detail("failed", message="[red]boom[/red] [/x]"))

    assert gpufleet("job", "job-1") == 0

    assert "[red]boom[/red] [/x]" in capsys.readouterr().out


def test_the_command_starts_without_what_it_does_not_need() -> None:
    heavy = "boto3 botocore aiobotocore kubernetes fastapi pydantic yaml rich.table httpx asyncio"
    code = f"import sys, workers.cli.main; print([name for name in {heavy.split()} if name in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"


@pytest.mark.parametrize("command", ["up", "demo"])
def test_the_embedded_fleet_says_what_it_needs(
    gpufleet: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert gpufleet(command) == 2

    assert "pip install 'gpufleet[local]'" in capsys.readouterr().err

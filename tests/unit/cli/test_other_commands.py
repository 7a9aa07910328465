"""The reading commands, and those that settle things."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import httpx
import pytest

from tests.unit.cli.conftest import FakeApi, detail, job
from workers.local.options import DEFAULT_NODES

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


def test_logs_are_written_as_they_are(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1/logs", httpx.Response(200, text="[bold]one[/]\n10%\r20%\u2028\ntwo"))

    assert gpufleet("logs", "job-1", "--execution", "2", "--tail", "5") == 0

    assert capsys.readouterr().out == "[bold]one[/]\n10%\r20%\u2028\ntwo\n"
    assert dict(api.requests[0].url.params) == {"execution": "2", "tail": "5"}


@pytest.mark.parametrize(
    ("state", "execution", "object_name", "named"),
    [("running", 2, "train-2", 2), ("succeeded", 2, "train-2", 2), ("queued", 2, None, 1), ("queued", 1, None, 1)],
)
def test_logs_as_json_are_one_document_that_names_the_execution_which_it_asked_for(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], state: str, execution: int, object_name: str | None, named: int
) -> None:
    executions = [{"number": execution, "object": object_name and {"name": object_name}}]
    api.on("GET", "/fleet/v1/jobs/job-1", detail(state, execution=execution, executions=executions))
    api.on("GET", "/fleet/v1/jobs/job-1/logs", httpx.Response(200, text="one\ntwo\n"))

    assert gpufleet("logs", "job-1", "--json") == 0

    assert json.loads(capsys.readouterr().out) == {"job_id": "job-1", "execution": named, "lines": ["one", "two"]}
    assert api.requests[-1].url.params["execution"] == str(named)


def test_a_log_of_something_else_than_text_is_of_no_gpufleet(api: FakeApi, gpufleet: Run) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1/logs", httpx.Response(200, html="<html>"))

    assert gpufleet("logs", "job-1") == 5


def test_a_job_has_the_same_names_in_every_document(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/api/v1/queue/jobs", {"jobs": [job(1, "failed", error_message="boom")], "next_cursor": None})
    api.on("GET", "/fleet/v1/jobs/job-1", detail("failed", message="boom"))
    api.on("DELETE", "/api/v1/queue/jobs/job-1", {"message": "Job 'job-1' cancelled"})

    documents = []
    for command in (["jobs"], ["job", "job-1"], ["cancel", "job-1"]):
        assert gpufleet(*command, "--json") == 0
        documents.append(json.loads(capsys.readouterr().out))

    found = [documents[0]["jobs"][0], *documents[1:]]
    assert [(one["id"], one["name"], one["region"], one["state"], one["message"]) for one in found] == [
        ("job-1", "train", "us-east-1", "failed", "boom")
    ] * 3
    assert not any({"job_id", "job_name", "status", "target_region"} & set(one) for one in found)
    assert documents[2]["answer"] == "Job 'job-1' cancelled"


def test_labels_are_in_a_wide_list(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/api/v1/queue/jobs", {"jobs": [job(labels={"team": "x"})], "next_cursor": None})

    gpufleet("jobs")
    gpufleet("jobs", "--wide")

    narrow, wide = capsys.readouterr().out.split("ID ")[1:]
    assert ("team=x" in narrow, "team=x" in wide) == (False, True)


def test_times_are_in_utc_and_say_so(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1", detail("queued", submitted_at="2026-01-02T03:04:05+02:00"))

    gpufleet("job", "job-1")

    assert "2026-01-02 01:04:05 UTC" in capsys.readouterr().out


def test_logs_that_are_not_there_are_exit_code_3(api: FakeApi, gpufleet: Run) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1/logs", {"detail": "Log 'job-1' not found"}, status=404)

    assert gpufleet("logs", "job-1") == 3


def test_an_id_with_odd_characters_stays_one_part_of_the_path(api: FakeApi, gpufleet: Run) -> None:
    gpufleet("job", "x?y#z%2F")

    assert api.requests[0].url.raw_path == b"/fleet/v1/jobs/x%3Fy%23z%252F"


def test_cancel_says_what_the_api_said(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("DELETE", "/api/v1/queue/jobs/job-1", {"message": "Job 'job-1' cancelled"})

    assert gpufleet("cancel", "job-1", "--reason", "no longer wanted") == 0

    assert capsys.readouterr().out == "Job 'job-1' cancelled\n"
    assert api.requests[0].url.params["reason"] == "no longer wanted"


def test_a_rejection_is_shown_with_every_fault(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    problems = [{"pointer": f"/manifest/{name}", "value": value, "rule": "must be good"} for name, value in {"a": None, "b": "1"}.items()]
    one = {"id": "m1", "reason": "refused", "problems": problems, "message_id": "m1", "reference": "mine", "excerpt": "{}"}
    api.on("GET", "/fleet/v1/rejections", {"rejections": [one], "next_cursor": None})
    api.on("GET", "/fleet/v1/rejections/m1", one)

    assert gpufleet("rejections") == 0
    assert "/manifest/a: must be good (and 1 more)" in capsys.readouterr().out
    assert gpufleet("rejections", "m1") == 0
    printed = capsys.readouterr().out
    assert "  /manifest/a: must be good\n  /manifest/b: 1: must be good\n" in printed


def test_dead_letters_of_all_queues_and_of_one(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", LETTERS, {"queues": [{"queue": "q", "dead_letters": 2}]})
    broken = {"id": "d1", "body": "{broken", "attributes": {"reason": "no JSON", "message_id": "m1"}}
    refused = {"id": "d2", "body": '{"reference": "nightly-7"}', "attributes": {"message_id": "m2"}}
    api.on("GET", f"{LETTERS}/q", {"dead_letters": [broken, refused, {"id": "d3", "body": '{"reference": 5}', "attributes": {}}]})

    assert gpufleet("dead-letters", "list") == 0
    assert gpufleet("dead-letters", "list", "q") == 0

    printed = capsys.readouterr().out
    rows = [line.split()[:3] for line in printed.splitlines()[-3:]]
    assert rows == [["d1", "m1", "-"], ["d2", "m2", "nightly-7"], ["d3", "-", "-"]]
    assert "no JSON" in printed
    assert "{broken" in printed


def test_a_dead_letter_is_shown_with_its_rejection_and_reference(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    one = {"id": "d2", "body": '{"reference": "nightly-7", "x": "\x1b[31m"}', "attributes": {"message_id": "m2"}}
    api.on("GET", f"{LETTERS}/q/d2", one)

    gpufleet("dead-letters", "show", "q", "d2")

    printed = capsys.readouterr().out
    assert [line.split() for line in printed.splitlines()[:3]] == [["id", "d2"], ["rejection", "m2"], ["reference", "nightly-7"]]
    assert "\x1b" not in printed


def test_settling_all_goes_in_batches_of_the_ids_that_are_there(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [f"m{number}" for number in range(150)]
    api.on("GET", f"{LETTERS}/q", {"dead_letters": [{"id": one} for one in ids]})
    api.on("POST", f"{LETTERS}/q/redrive", {"queue": "q", "count": 1, "message_ids": []})

    assert gpufleet("dead-letters", "redrive", "q", "--all") == 0

    assert [len(body["message_ids"]) for body in api.bodies()] == [100, 50]
    assert capsys.readouterr().out == "150 dead letters sent back to q\n"


def test_settling_all_goes_on_until_none_is_left_that_was_there(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """More than one list holds; and one that was sent back comes again at once, for ever."""
    page = [{"id": f"m{number}", "sent_at": "2026-01-02T03:04:05Z"} for number in range(1000)]
    more = [{"id": "late", "sent_at": "2026-01-02T03:04:06Z"}]
    again = [{"id": "again", "sent_at": "2999-01-01T00:00:00Z"}, {"id": "unknown", "sent_at": None}]
    api.on("GET", f"{LETTERS}/q", {"dead_letters": page}, {"dead_letters": more + again}, {"dead_letters": again})
    api.on("POST", f"{LETTERS}/q/redrive", {"count": 1})

    assert gpufleet("dead-letters", "redrive", "q", "--all") == 0

    assert [one for body in api.bodies() for one in body["message_ids"]] == [*(f"m{number}" for number in range(1000)), "late"]
    assert capsys.readouterr().out == "1001 dead letters sent back to q\n"


def test_what_is_said_in_a_record_is_no_markup(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/fleet/v1/jobs/job-1", detail("failed", message="[red]boom[/red] [/x]"))

    assert gpufleet("job", "job-1") == 0

    assert "[red]boom[/red] [/x]" in capsys.readouterr().out


def test_the_command_starts_without_what_it_does_not_need() -> None:
    heavy = "boto3 botocore aiobotocore kubernetes fastapi pydantic yaml rich.table httpx asyncio"
    code = f"import sys, workers.cli.main; print([name for name in {heavy.split()} if name in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "[]"


def test_the_help_of_up_shows_machines_as_they_are_written_and_those_of_the_default_whole() -> None:
    code = "from workers.cli.main import main; main()"
    environment = os.environ | {"COLUMNS": "80", "TERM": "dumb"}

    printed = subprocess.run([sys.executable, "-c", code, "up", "--help"], capture_output=True, text=True, check=True, env=environment)

    assert "4xg5.12xlarge:spot,2xm5.4xlarge" in printed.stdout
    assert DEFAULT_NODES in printed.stdout


@pytest.mark.parametrize("command", ["up", "demo"])
def test_the_embedded_fleet_says_what_it_needs(
    gpufleet: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    assert gpufleet(command) == 2

    assert "pip install 'gpufleet[local]'" in capsys.readouterr().err

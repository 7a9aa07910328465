"""Every way in which a command can end has its own exit code, and says why on standard error."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.unit.cli.conftest import FakeApi, job

Run = Callable[..., int]


@pytest.mark.parametrize(
    ("status", "code"), [(404, 3), (409, 4), (422, 1), (413, 1), (403, 1), (401, 6), (500, 1), (502, 5), (503, 5), (504, 5), (429, 5)]
)
def test_an_error_of_the_api_becomes_the_exit_code_of_its_kind(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], status: int, code: int
) -> None:
    api.on("POST", "/fleet/v1/dead-letters/q/redrive", {"detail": "because"}, status=status)

    assert gpufleet("dead-letters", "redrive", "q", "m") == code

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error: because" in printed.err


def test_an_api_that_does_not_answer_is_exit_code_5_with_a_hint(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/api/v1/queue/jobs", httpx.ConnectError("connection refused"))

    assert gpufleet("jobs", "--api", "http://127.0.0.1:9") == 5

    assert "no answer from http://127.0.0.1:9: connection refused; is it running?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["jobs", "--limit", "0"],
        ["jobs", "--limit", "1001"],
        ["submit"],
        ["submit", "no-such-file.yaml"],
        ["dead-letters", "redrive", "queue"],
        ["dead-letters", "redrive", "queue", "id", "--all"],
        ["jobs", "--api", "nonsense"],
        ["jobs", "--api", "ftp://host"],
        ["jobs", "--api", "http://host:port"],
        ["jobs", "--api", "http://a..b"],
        ["jobs", "--api", "http://" + "a" * 300],
        ["jobs", "--api", "http://" + "a." * 200 + "b"],
        ["jobs", "--api", "http://host:99999"],
        ["jobs", "--api", "http://host/?x=1"],
        ["jobs", "--api", ""],
        ["jobs", "--region", "\udcff"],
        ["job", "\udcff"],
        ["submit", "\udcff.yaml"],
        ["submit", ""],
        ["up", "--dispatchers", "0"],
        ["up", "--regions", ","],
        ["up", "--regions", "a,a"],
        ["up", "--regions", ""],
        ["up", "--regions", "us-east-1,"],
        ["up", "--nodes", ""],
        ["up", "--nodes", "m5.large,"],
        ["up", "--nodes", "m5.large", "--kubeconfig", "config"],
        ["up", "--state", "/proc/x", "--api-port", "1"],
        ["up", "--state", "/dev/null", "--api-port", "1"],
        ["up", "--host", "0.0.0.0"],
        ["up", "--host", ""],
        ["up", "--host", "::"],
        ["up", "--host", "no.such.host.invalid"],
        ["up", "--identity", "passwords"],
        ["up", "--identity", "iam"],
        ["up", "--identity", "keys,passwords"],
    ],
)
def test_bad_usage_is_exit_code_2_and_says_something(gpufleet: Run, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert gpufleet(*arguments) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    *_, line = printed.err.removeprefix("starting the fleet …\n").splitlines()
    assert _ == []
    assert line.startswith("error: ")
    assert not any(python in printed.err for python in ("Error(", "None", "codec", "\udcff"))


def test_an_answer_that_is_no_json_is_told_and_not_a_traceback(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/api/v1/queue/stats", httpx.Response(200, text="<html>somebody else</html>"))

    assert gpufleet("stats") == 5

    assert "http://127.0.0.1:8080: this is not a gpufleet API" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["jobs"], ["job", "x"], ["events", "x"], ["logs", "x"], ["stats"], ["rejections"], ["dead-letters", "list"]]
)
def test_json_of_somebody_else_is_told_and_not_a_traceback(
    api: FakeApi, gpufleet: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(api, "handle", lambda request: httpx.Response(200, json={"hello": "world"}))

    assert gpufleet(*arguments) == 5


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "../../x", "x" * 2000, "a\x1bb"])
@pytest.mark.parametrize(
    "command", [["job"], ["cancel"], ["events"], ["logs"], ["rejections"], ["dead-letters", "list"], ["dead-letters", "show", "q"]]
)
def test_an_id_that_can_be_none_is_not_found_and_not_asked_for(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], bad: str, command: list[str]
) -> None:
    assert gpufleet(*command, bad) == 3

    assert api.requests == []
    told = capsys.readouterr().err
    assert f"'{bad[:4].replace(chr(27), chr(92) + 'x1b')}" in told
    assert "not found" in told


@pytest.mark.parametrize("key", ["ключ", "a\nb", " a", "\x7f"])
def test_a_key_that_no_header_can_carry_is_named(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path, key: str
) -> None:
    file = tmp_path / "job.json"
    file.write_text('{"kind": "Job"}')

    assert gpufleet("submit", str(file), "--idempotency-key", key) == 2

    assert capsys.readouterr().err.count("Idempotency-Key: ") == 1
    assert api.requests == []


@pytest.mark.parametrize(("raised", "code"), [(UnicodeError("label too long"), 2), (OverflowError("port"), 2), (httpx.ReadError("x"), 5)])
def test_what_the_resolver_raises_is_told(api: FakeApi, gpufleet: Run, raised: Exception, code: int) -> None:
    api.on("GET", "/api/v1/queue/stats", raised)

    assert gpufleet("stats") == code


@pytest.mark.parametrize(
    "arguments", [["jobs", "--limit", "0"], ["nonsense"], ["job"], ["jobs", "--api", "x"], ["job", "x"], ["job", ".."]]
)
def test_an_error_with_json_is_one_document_on_standard_output(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code = gpufleet(*arguments, "--json")

    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert printed.err == ""
    assert error["exit_code"] == code != 0
    assert error["message"]
    assert all(set(fault) == {"field", "value", "rule"} for fault in error["faults"])


def test_the_faults_of_an_answer_are_in_the_document(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/api/v1/queue/jobs", {"detail": [{"pointer": "/status", "input": "x", "msg": "must be a status"}]}, status=422)

    assert gpufleet("jobs", "--status", "x", "--json") == 2

    fault = {"field": "/status", "value": "x", "rule": "must be a status"}
    assert json.loads(capsys.readouterr().out) == {"error": {"message": "refused (422): 1 fault", "faults": [fault], "exit_code": 2}}


def test_an_option_that_typer_refuses_is_one_line_that_names_it(gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    gpufleet("jobs", "--limit", "0")

    assert capsys.readouterr().err == "error: --limit: 0: must be at least 1 (gpufleet jobs --help tells more)\n"


@pytest.mark.parametrize("group", [[], ["dead-letters"]])
def test_no_command_is_answered_with_the_help_and_exit_code_2(gpufleet: Run, capsys: pytest.CaptureFixture[str], group: list[str]) -> None:
    assert gpufleet(*group) == 2

    printed = capsys.readouterr()
    assert "Usage: gpufleet" in printed.out
    assert printed.err == "error: a command must be given\n"


def test_a_list_goes_to_standard_output_and_the_way_on_to_standard_error(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    api.on("GET", "/api/v1/queue/jobs", {"jobs": [job(1), job(2, "running")], "count": 2, "next_cursor": "abc"})

    assert gpufleet("jobs", "--region", "us-east-1", "--status", "running") == 0

    printed = capsys.readouterr()
    assert printed.out.count("train") == 2
    assert "--cursor abc" in printed.err
    assert dict(api.requests[0].url.params) == {"target_region": "us-east-1", "status": "running", "limit": "50"}


def test_the_address_comes_from_the_environment_unless_an_option_names_it(
    api: FakeApi, gpufleet: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.on("GET", "/api/v1/queue/stats", {"by_region": {}})
    monkeypatch.setenv("GPUFLEET_API", "http://fleet.example:1234")

    gpufleet("stats")
    gpufleet("stats", "--api", "http://other.example")

    assert [request.url.host for request in api.requests] == ["fleet.example", "other.example"]

"""Every way in which a command can end has its own exit code, and says why on standard error."""

from collections.abc import Callable

import httpx
import pytest

from tests.unit.cli.conftest import FakeApi, job

Run = Callable[..., int]


@pytest.mark.parametrize(
    ("status", "code"), [(404, 3), (409, 4), (422, 1), (413, 1), (403, 1), (500, 1), (502, 5), (503, 5), (504, 5), (429, 5)]
)
def test_an_error_of_the_api_becomes_the_exit_code_of_its_kind(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], status: int, code: int
) -> None:
    api.on("GET", "/fleet/v1/jobs/x", {"detail": "because"}, status=status)

    assert gpufleet("job", "x") == code

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
        ["logs", "x", "--follow", "--json"],
        ["dead-letters", "redrive", "queue"],
        ["dead-letters", "redrive", "queue", "id", "--all"],
        ["jobs", "--api", "nonsense"],
        ["jobs", "--api", "ftp://host"],
        ["jobs", "--api", "http://host:port"],
        ["up", "--dispatchers", "0"],
        ["up", "--regions", ","],
        ["up", "--regions", "a,a"],
    ],
)
def test_bad_usage_is_exit_code_2_and_says_something(gpufleet: Run, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert gpufleet(*arguments) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.strip()


def test_an_answer_that_is_no_json_is_told_and_not_a_traceback(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", "/api/v1/queue/stats", httpx.Response(200, text="<html>somebody else</html>"))

    assert gpufleet("stats") == 1

    assert "is it the API of a gpufleet?" in capsys.readouterr().err


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

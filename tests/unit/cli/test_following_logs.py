"""`gpufleet logs --follow`: each line once, over streams that end and an API that is away."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.unit.cli.conftest import FakeApi
from workers.cli import log_following
from workers.cli.client import FleetClient
from workers.cli.failures import CommandError, ExitCode

Run = Callable[..., int]
PATH = "/fleet/v1/jobs/job-1/logs"


def line(text: str, position: str | None = None, container: str = "main", execution: int = 1) -> str:
    data = {"execution": execution, "pod": f"pod-{execution}", "container": container, "line": text, "timestamp": "2026-01-02T03:04:05.6Z"}
    return f"data: {json.dumps(data)}\n" + (f"id: {position}\n" if position else "") + "\n"


def other(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def opened(*containers: str, execution: int = 1) -> str:
    return "".join(other("container", execution=execution, pod=f"pod-{execution}", container=name) for name in containers)


END = other("end", execution=1, outcome="succeeded", reason=None, message=None, whole=True)
PING = ": ping\n\n"


def stream(*events: str) -> httpx.Response:
    return httpx.Response(200, text="retry: 1000\n\n" + "".join(events), headers={"content-type": "text/event-stream; charset=utf-8"})


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made, which take no time of the test and all of theirs on the clock of the follower."""
    made: list[float] = []
    monkeypatch.setattr(log_following.follow, "__kwdefaults__", {"pause": made.append, "now": lambda: sum(made)})
    return made


def test_lines_are_written_as_they_come(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", PATH, stream(opened("main"), line("[bold]one[/]", "p1"), PING, line("", "p2"), line("10%\r20%", "p3"), END))

    assert gpufleet("logs", "job-1", "--follow", "--execution", "2", "--tail", "5") == 0

    assert capsys.readouterr().out == "[bold]one[/]\n\n10%\r20%\n"
    assert dict(api.requests[0].url.params) == {"follow": "true", "execution": "2", "tail": "5"}
    assert api.requests[0].headers["accept"] == "text/event-stream"
    assert "last-event-id" not in api.requests[0].headers


def test_with_several_containers_each_line_has_its_name(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", PATH, stream(opened("main", "side"), line("one", "p1"), line("two", "p2", "side"), END))

    assert gpufleet("logs", "job-1", "-f") == 0

    assert capsys.readouterr() == ("pod-1/main: one\npod-1/side: two\n", "")


def test_a_retry_looks_like_the_first_execution(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = [opened("main"), line("one", "p1")], [opened("main", execution=2), line("two", "p2", execution=2)]
    api.on("GET", PATH, stream(*first), stream(*second), stream(opened("main", execution=2), line("three", "p3", execution=2), END))

    assert gpufleet("logs", "job-1", "-f") == 0

    assert capsys.readouterr() == ("one\ntwo\nthree\n", "execution 2:\n")


def test_that_names_begin_is_told_once_and_they_stay(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    first = [opened("main"), line("one", "p1"), opened("side"), line("two", "p2"), line("three", "p3", "side")]
    api.on("GET", PATH, stream(*first, opened("main", execution=2), line("four", "p4", execution=2), END))

    assert gpufleet("logs", "job-1", "-f") == 0

    printed = capsys.readouterr()
    assert printed.out == "one\npod-1/main: two\npod-1/side: three\npod-2/main: four\n"
    assert printed.err == "from here on each line stands behind its pod and container\nexecution 2:\n"


def test_a_stream_that_is_cut_off_is_gone_on_with_behind_its_last_line(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], pauses: list[float]
) -> None:
    away = [httpx.ConnectError("refused"), httpx.Response(503, json={"detail": "busy"}), httpx.Response(502, html="<html>")]
    broken = httpx.ReadError("reset")
    api.on("GET", PATH, stream(line("one", "p1"), line("two", "p2")), *away, stream(line("three", "p3")), broken, stream(END))

    assert gpufleet("logs", "job-1", "--follow") == 0

    assert capsys.readouterr().out == "one\ntwo\nthree\n"
    assert [request.headers.get("last-event-id") for request in api.requests] == [None, "p2", "p2", "p2", "p2", "p3", "p3"]
    assert pauses == [0.25, 0.375, 0.5625, 0.84375, 0.25, 0.375]


def test_answers_that_end_for_their_length_are_gone_on_with_for_as_long_as_it_takes(
    api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], pauses: list[float]
) -> None:
    quiet = [stream(other("again")) for _ in range(1000)]
    api.on("GET", PATH, stream(line("one", "p1"), other("again")), *quiet, stream(line("two", "p2"), END))

    assert gpufleet("logs", "job-1", "--follow") == 0

    assert capsys.readouterr().out == "one\ntwo\n"
    assert {request.headers.get("last-event-id") for request in api.requests[1:]} == {"p1"}
    assert set(pauses) == {0.25}


def test_an_api_that_stays_away_is_given_up(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str], pauses: list[float]) -> None:
    api.on("GET", PATH, stream(line("one", "p1")), httpx.ConnectError("refused"))

    assert gpufleet("logs", "job-1", "--follow") == 5

    printed = capsys.readouterr()
    assert printed.out == "one\n"
    assert "gave up after 60 s without the API: no answer from http://127.0.0.1:8080" in printed.err
    assert 60 < sum(pauses) < 70


def test_streams_that_all_end_at_once_are_given_up(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", PATH, stream())

    assert gpufleet("logs", "job-1", "--follow") == 5

    assert "its streams end at once" in capsys.readouterr().err


@pytest.mark.parametrize(("answer", "code"), [(httpx.ConnectError("refused"), 5), (httpx.Response(404, json={"detail": "Job 'x' not"}), 3)])
def test_what_is_refused_when_it_is_first_asked_is_told_at_once(api: FakeApi, gpufleet: Run, answer: Any, code: int) -> None:
    api.on("GET", PATH, answer)

    assert gpufleet("logs", "job-1", "--follow") == code

    assert len(api.requests) == 1


def test_a_job_that_is_gone_meanwhile_is_not_waited_for(api: FakeApi, gpufleet: Run) -> None:
    api.on("GET", PATH, stream(line("one", "p1")), httpx.Response(404, json={"detail": "Job 'job-1' not found"}))

    assert gpufleet("logs", "job-1", "--follow") == 3


def test_notices_and_a_bad_end_are_told_beside_the_log(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    notice = other("notice", execution=1, pod="pod-1", container="main", message="the pod is gone", loss=True)
    api.on("GET", PATH, stream(line("one", "p1"), notice, other("end", outcome="failed", reason="BackoffLimitExceeded", message="exit 1")))

    assert gpufleet("logs", "job-1", "--follow") == 0

    printed = capsys.readouterr()
    assert printed.out == "one\n"
    assert printed.err == "pod-1/main: the pod is gone\nfailed: BackoffLimitExceeded: exit 1\n"


def test_as_json_each_line_and_the_end_are_documents(api: FakeApi, gpufleet: Run, capsys: pytest.CaptureFixture[str]) -> None:
    api.on("GET", PATH, stream(opened("main"), line("one\u2028", "p1"), line("two", "p2"), END))

    assert gpufleet("logs", "job-1", "--follow", "--json") == 0

    documents = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    assert [document.get("line") for document in documents] == ["one\u2028", "two", None]
    assert documents[0].keys() == {"execution", "pod", "container", "line", "timestamp"}
    assert documents[2] == {"event": "end", "execution": 1, "outcome": "succeeded", "reason": None, "message": None, "whole": True}


def test_an_answer_that_is_no_stream_of_events_is_of_no_gpufleet(api: FakeApi, gpufleet: Run) -> None:
    api.on("GET", PATH, httpx.Response(200, text="one\n"))

    assert gpufleet("logs", "job-1", "--follow") == 5


def test_an_event_that_is_no_json_is_of_no_gpufleet(api: FakeApi) -> None:
    api.on("GET", PATH, stream("data: x\n\n"))
    with FleetClient("http://127.0.0.1:8080") as client, pytest.raises(CommandError, match="not a gpufleet API") as refused:
        list(client.log_events("job-1"))

    assert refused.value.code is ExitCode.UNREACHABLE

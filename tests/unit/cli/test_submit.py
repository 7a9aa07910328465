"""`gpufleet submit`: what it sends, and what it says of what came back."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import FakeApi, detail, job

Run = Callable[..., int]

JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {}}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "peers"}}
ROUTE = ("POST", "/api/v1/queue/jobs")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def to_file(*documents: Any, name: str = "jobs.yaml") -> str:
        path = tmp_path / name
        path.write_text("\n---\n".join(json.dumps(one) for one in documents))
        return str(path)

    return to_file


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.cli.watching.FIRST_PAUSE", 0)
    monkeypatch.setattr("workers.cli.watching.LONGEST_PAUSE", 0)


def test_everything_that_was_asked_for_is_in_the_request(api: FakeApi, gpufleet: Run, write: Callable[..., str]) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)
    options = ["--region", "eu-west-1", "--namespace", "research", "--priority", "7", "--label", "a=1", "--label", "b=x=y"]

    code = gpufleet("submit", write(SERVICE, JOB), *options, "--max-attempts", "3", "--idempotency-key", "k1")

    assert code == 0
    assert api.requests[0].headers["idempotency-key"] == "k1"
    assert api.bodies() == [
        {
            "manifest": JOB,
            "supporting": [SERVICE],
            "target_region": "eu-west-1",
            "namespace": "research",
            "priority": 7,
            "labels": {"a": "1", "b": "x=y"},
            "retry": {"max_attempts": 3},
        }
    ]


def test_limits_and_spot_are_in_the_request(api: FakeApi, gpufleet: Run, write: Callable[..., str]) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)
    limits = ["--queue-timeout", "60", "--execution-timeout", "600"]

    gpufleet("submit", write(JOB), *limits, "--spot-instance-type", "g5.xlarge", "--max-spot-price", "0.75")

    (body,) = api.bodies()
    assert body["timeouts"] == {"queue_seconds": 60, "execution_seconds": 600}
    assert (body["spot_instance_type"], body["max_spot_price"]) == ("g5.xlarge", 0.75)


def test_only_what_was_asked_for_is_in_the_request(api: FakeApi, gpufleet: Run, write: Callable[..., str]) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)

    gpufleet("submit", write(JOB))

    assert api.bodies() == [{"manifest": JOB, "target_region": "any", "namespace": "gco-jobs", "priority": 0}]
    assert "idempotency-key" not in api.requests[0].headers


def test_several_jobs_in_several_files_become_several_submissions(api: FakeApi, gpufleet: Run, write: Callable[..., str]) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)

    assert gpufleet("submit", write(JOB, SERVICE, JOB), write(JOB, name="more.json")) == 0

    assert ["supporting" in body for body in api.bodies()] == [True, False, False]


def test_a_manifest_comes_from_standard_input(api: FakeApi, gpufleet: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(JOB).encode())))

    assert gpufleet("submit", "-") == 0
    assert len(api.requests) == 1


def test_one_refusal_does_not_stop_the_others_and_names_its_faults(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    fault = {"type": "value_error", "loc": ["body", "priority"], "msg": "must be less", "input": 500, "pointer": "/priority"}
    api.on(*ROUTE, {"detail": [fault]}, status=422)
    api.on(*ROUTE, {"job": job(2)}, status=201)

    assert gpufleet("submit", write(JOB, JOB)) == 1

    printed = capsys.readouterr()
    assert printed.out.startswith("job-2  train")
    assert "/priority: 500: must be less" in printed.err


def test_an_api_that_is_away_ends_the_work_at_once(api: FakeApi, gpufleet: Run, write: Callable[..., str]) -> None:
    api.on(*ROUTE, {"detail": "busy"}, status=503)

    assert gpufleet("submit", write(JOB, JOB, JOB)) == 5
    assert len(api.requests) == 1


def test_json_is_one_document_with_the_refused_ones_in_it(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    api.on(*ROUTE, {"job": job(1)}, status=200)
    api.on(*ROUTE, {"detail": "job ID or idempotency key is already in use"}, status=409)

    assert gpufleet("submit", write(JOB, JOB), "--json") == 4

    first, second = json.loads(capsys.readouterr().out)["submissions"]
    assert (first["created"], first["job"]["id"], first["job"]["state"], first["error"]) == (False, "job-1", "queued", None)
    assert second["error"] == {"message": "job ID or idempotency key is already in use", "faults": [], "exit_code": 4}
    assert second["job"] is None


@pytest.mark.parametrize(("end", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_watching_ends_with_the_job_and_tells_each_event_once(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str], end: str, code: int
) -> None:
    def event(number: int, kind: str, state: str) -> dict[str, Any]:
        return {"number": number, "type": kind, "state": state, "execution": 1, "at": "2026-01-02T03:04:05Z"}

    history = [event(1, "submitted", "queued"), event(2, "running", "running"), event(3, end, end)]
    api.on(*ROUTE, {"job": job()}, status=201)
    api.on("GET", "/fleet/v1/jobs/job-1", detail("queued", revision=1), detail("running", revision=2), detail("running", revision=2))
    api.on("GET", "/fleet/v1/jobs/job-1", detail(end, revision=3, message="logs kept"))
    api.on("GET", "/fleet/v1/jobs/job-1/events", {"events": history[:1]}, {"events": history[:2]}, {"events": history})

    assert gpufleet("submit", write(JOB), "--watch") == code

    printed = capsys.readouterr()
    assert printed.err.count("submitted") == printed.err.count("running        running") == 1
    assert printed.out.splitlines()[-1] == f"job-1  train  {end}{'' if end == 'succeeded' else '  logs kept'}"


def test_watching_survives_an_api_that_is_away_for_a_moment(api: FakeApi, gpufleet: Run, write: Callable[..., str]) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)
    api.on("GET", "/fleet/v1/jobs/job-1", {"detail": "busy"}, {"detail": "busy"}, status=503)
    api.on("GET", "/fleet/v1/jobs/job-1", detail("succeeded"))
    api.on("GET", "/fleet/v1/jobs/job-1/events", {"events": []})

    assert gpufleet("submit", write(JOB), "--watch") == 0


def test_a_watch_with_json_writes_one_document_and_nothing_else(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)
    api.on("GET", "/fleet/v1/jobs/job-1", detail("succeeded"))

    assert gpufleet("submit", write(JOB), "--watch", "--json") == 0

    printed = capsys.readouterr()
    assert json.loads(printed.out)["submissions"][0]["job"]["state"] == "succeeded"
    assert printed.err == ""


def test_a_submission_has_the_same_shape_watched_or_not(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    api.on(*ROUTE, {"job": job(labels={"a": "b"})}, status=201)
    api.on("GET", "/fleet/v1/jobs/job-1", detail("queued", labels={"a": "b"}), detail("succeeded", labels={"a": "b"}))
    file = write(JOB)

    shapes = []
    for options in (["--json"], ["--json", "--watch"]):
        gpufleet("submit", file, *options)
        (one,) = json.loads(capsys.readouterr().out)["submissions"]
        shapes.append((set(one), set(one["job"]), one["job"]["id"], one["job"]["name"], one["job"]["region"], one["job"]["labels"]))

    assert shapes[0] == shapes[1]
    assert shapes[0][2:] == ("job-1", "train", "us-east-1", {"a": "b"})


def test_what_was_accepted_is_told_when_the_watch_ends_in_an_error(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)
    api.on("GET", "/fleet/v1/jobs/job-1", {"detail": "busy"}, status=503)

    assert gpufleet("submit", write(JOB), "--watch", "--json") == 5

    document = json.loads(capsys.readouterr().out)
    assert document["submissions"][0]["job"]["id"] == "job-1"
    assert document["error"]["exit_code"] == 5


def test_what_was_accepted_is_told_when_somebody_interrupts_the_watch(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    api.on(*ROUTE, {"job": job()}, status=201)
    monkeypatch.setattr("workers.cli.watching.watch", interrupt)

    assert gpufleet("submit", write(JOB), "--watch", "--json") == 130

    document = json.loads(capsys.readouterr().out)
    assert document["submissions"][0]["job"]["id"] == "job-1"
    assert document["error"]["message"] == "interrupted"


def test_what_was_accepted_before_the_api_went_away_is_told(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)
    api.on(*ROUTE, {"detail": "busy"}, status=503)

    assert gpufleet("submit", write(JOB, JOB, JOB)) == 5

    printed = capsys.readouterr()
    assert printed.out.startswith("job-1  train")
    assert "not sent: busy" in printed.err
    assert len(api.requests) == 2


def end_in(api: FakeApi, count: int, state: str) -> None:
    for number in range(1, count + 1):
        api.on(*ROUTE, {"job": job(number)}, status=201)
        path = f"/fleet/v1/jobs/job-{number}"
        api.on("GET", path, *({**detail(one, revision=r), "id": f"job-{number}"} for r, one in enumerate(["queued", "running", state])))
        happened = [{"number": one, "type": "x", "state": "running", "execution": 1} for one in range(1, 6)]
        api.on("GET", f"{path}/events", {"events": happened})


def test_many_jobs_are_watched_in_one_line_each_and_a_count(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    end_in(api, 30, "succeeded")

    assert gpufleet("submit", write(*[JOB] * 30), "--watch") == 0

    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 30 + 30
    assert printed.out.splitlines()[-1] == "job-30  train  succeeded"
    assert printed.err == "30 jobs: 30 succeeded\n"


def test_every_event_of_many_jobs_is_told_where_it_is_asked_for(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    end_in(api, 2, "failed")

    assert gpufleet("submit", write(JOB, JOB), "--watch", "--verbose") == 1

    assert len(capsys.readouterr().err.splitlines()) == 2 * 5 + 1


def test_what_goes_with_a_job_is_said(api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    api.on(*ROUTE, {"job": job()}, status=201)

    gpufleet("submit", write(SERVICE, JOB, JOB))

    assert [line.partition("with ")[2] for line in capsys.readouterr().out.splitlines()] == ["Service/peers", ""]


@pytest.mark.parametrize(
    "options",
    [
        ["--label", "novalue"],
        ["--label", "=x"],
        ["--label", "a=b", "--label", "a=c"],
        ["--priority", "101"],
        ["--max-attempts", "0"],
        ["--max-spot-price", "nan"],
        ["--max-spot-price", "0"],
    ],
)
def test_bad_options_send_nothing(api: FakeApi, gpufleet: Run, write: Callable[..., str], options: list[str]) -> None:
    assert gpufleet("submit", write(JOB), *options) == 2
    assert api.requests == []


def test_one_idempotency_key_is_not_for_several_jobs(api: FakeApi, gpufleet: Run, write: Callable[..., str]) -> None:
    assert gpufleet("submit", write(JOB, JOB), "--idempotency-key", "k") == 2
    assert api.requests == []

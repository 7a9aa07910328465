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
    assert (first["created"], first["job"]["job_id"]) == (False, "job-1")
    assert second["error"] == "job ID or idempotency key is already in use"


@pytest.mark.parametrize(("end", "code"), [("succeeded", 0), ("failed", 1), ("cancelled", 1)])
def test_watching_ends_with_the_job_and_tells_each_event_once(
    api: FakeApi, gpufleet: Run, write: Callable[..., str], capsys: pytest.CaptureFixture[str], end: str, code: int
) -> None:
    def event(number: int, kind: str, state: str) -> dict[str, Any]:
        return {"number": number, "type": kind, "state": state, "execution": 1, "at": "2026-01-02T03:04:05Z"}

    history = [event(1, "submitted", "queued"), event(2, "running", "running"), event(3, end, end)]
    api.on(*ROUTE, {"job": job()}, status=201)
    api.on("GET", "/fleet/v1/jobs/job-1", detail("queued", revision=1), detail("running", revision=2), detail("running", revision=2))
    api.on("GET", "/fleet/v1/jobs/job-1", detail(end, revision=3))
    api.on("GET", "/fleet/v1/jobs/job-1/events", {"events": history[:1]}, {"events": history[:2]}, {"events": history})

    assert gpufleet("submit", write(JOB), "--watch") == code

    printed = capsys.readouterr()
    assert printed.err.count("submitted") == printed.err.count("running        running") == 1
    assert printed.out.splitlines()[-1] == f"job-1  train  {end}"


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
    assert json.loads(printed.out)["jobs"][0]["state"] == "succeeded"
    assert printed.err == ""


@pytest.mark.parametrize("options", [["--label", "novalue"], ["--label", "=x"], ["--priority", "101"], ["--max-attempts", "0"]])
def test_bad_options_send_nothing(api: FakeApi, gpufleet: Run, write: Callable[..., str], options: list[str]) -> None:
    assert gpufleet("submit", write(JOB), *options) == 2
    assert api.requests == []


def test_one_idempotency_key_is_not_for_several_jobs(api: FakeApi, gpufleet: Run, write: Callable[..., str]) -> None:
    assert gpufleet("submit", write(JOB, JOB), "--idempotency-key", "k") == 2
    assert api.requests == []

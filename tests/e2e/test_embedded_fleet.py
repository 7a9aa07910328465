"""A whole fleet, used as its users do: the command, the API behind it, and a producer with boto3."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.conftest import Fleet, until
from tests.e2e.jobs import a_file, a_job, a_message

Command = Callable[..., Any]
EXAMPLES = Path(__file__).parents[2] / "examples"


def submitted(gpufleet: Command, directory: Path, manifest: dict[str, Any], *options: str) -> str:
    answer = gpufleet("submit", a_file(directory, manifest), *options, "--json")
    return str(answer["submissions"][0]["job"]["id"])


def state(gpufleet: Command, job_id: str) -> str:
    return str(gpufleet("job", job_id, "--json")["state"])


def test_a_job_in_yaml_with_its_service_runs_to_its_end(gpufleet: Command) -> None:
    document = gpufleet("submit", str(EXAMPLES / "training-ddp.yaml"), "--watch", "--json")

    (job,) = (one["job"] for one in document["submissions"])
    assert job["state"] == "succeeded"
    history = gpufleet("events", job["id"], "--json")["events"]
    assert [event["type"] for event in history] == ["submitted", "claimed", "committed", "running", "succeeded"]
    assert [event["number"] for event in history] == list(range(1, 6))


def test_what_a_job_wrote_can_be_read_after_its_end(gpufleet: Command, tmp_path: Path) -> None:
    job_id = submitted(gpufleet, tmp_path, a_job(logs="alpha\nomega"))
    gpufleet("job", job_id, "--watch")

    assert gpufleet("logs", job_id) == "alpha\nomega\n"
    assert gpufleet("logs", job_id, "--tail", "1") == "omega\n"
    assert gpufleet("logs", job_id, "--execution", "2", code=3) == ""


def test_a_log_is_followed_to_the_end(gpufleet: Command, tmp_path: Path) -> None:
    job_id = submitted(gpufleet, tmp_path, a_job(logs="first\nsecond\nthird", duration="1"))

    assert gpufleet("logs", job_id, "--follow").splitlines() == ["first", "second", "third"]


def test_a_job_that_fails_is_tried_again_as_often_as_asked(gpufleet: Command, fleet: Fleet) -> None:
    request = {
        "manifest": a_job(exit_code="1,0"),
        "target_region": "eu-west-1",
        "retry": {"max_attempts": 2, "backoff_seconds": 0},
    }
    answer = httpx.post(f"{fleet.embedded.api_url}/api/v1/queue/jobs", json=request)
    job_id = answer.json()["job"]["job_id"]

    gpufleet("job", job_id, "--watch")

    executions = gpufleet("job", job_id, "--json")["executions"]
    assert [(one["number"], one["state"]) for one in executions] == [(1, "failed"), (2, "succeeded")]


def test_a_job_that_fails_for_good_is_exit_code_1(gpufleet: Command, tmp_path: Path) -> None:
    job_id = submitted(gpufleet, tmp_path, a_job(exit_code="7"))

    gpufleet("job", job_id, "--watch", code=1)

    assert state(gpufleet, job_id) == "failed"


def test_a_running_job_is_cancelled_and_nothing_of_it_runs_on(gpufleet: Command, fleet: Fleet, tmp_path: Path) -> None:
    job_id = submitted(gpufleet, tmp_path, a_job(hang="true"), "--region", "us-east-1")
    until(lambda: state(gpufleet, job_id) == "running")

    gpufleet("cancel", job_id, "--reason", "enough")

    gpufleet("job", job_id, "--watch", code=1)
    assert state(gpufleet, job_id) == "cancelled"
    assert "enough" in json.dumps(gpufleet("events", job_id, "--json"))
    port = fleet.embedded.layout.cluster_ports["us-east-1"]
    jobs = httpx.get(f"http://127.0.0.1:{port}/apis/batch/v1/namespaces/gco-jobs/jobs").json()["items"]
    assert job_id not in json.dumps(jobs)
    gpufleet("cancel", job_id, code=4)


def test_one_key_makes_one_job_and_refuses_another_request(gpufleet: Command, tmp_path: Path) -> None:
    key = f"key-{uuid.uuid4()}"
    first = submitted(gpufleet, tmp_path, a_job(), "--idempotency-key", key)

    again = gpufleet("submit", a_file(tmp_path, a_job()), "--idempotency-key", key, "--json")["submissions"][0]
    gpufleet("submit", a_file(tmp_path, a_job("other")), "--idempotency-key", key, "--json", code=4)

    assert (again["job"]["id"], again["created"]) == (first, False)


def test_a_message_on_the_queue_becomes_a_job(gpufleet: Command, fleet: Fleet) -> None:
    name = f"queued-{uuid.uuid4().hex[:8]}"
    fleet.drop(a_message(a_job(name)))

    def found() -> Any:
        jobs = gpufleet("jobs", "--json")["jobs"]
        return next((job for job in jobs if job["name"] == name and job["state"] == "succeeded"), None)

    until(found)


def test_a_refused_message_is_told_with_field_value_and_rule(gpufleet: Command, fleet: Fleet) -> None:
    manifest = a_job()
    manifest["spec"]["template"]["spec"]["hostNetwork"] = True
    message_id = fleet.drop(a_message(manifest, reference="mine"))

    rejection = until(lambda: next((one for one in rejections(gpufleet) if one["message_id"] == message_id), None))

    assert rejection["reference"] == "mine"
    (problem,) = rejection["problems"]
    assert problem["pointer"] == "/manifest/spec/template/spec/hostNetwork"
    shown = gpufleet("rejections", rejection["id"])
    assert "/manifest/spec/template/spec/hostNetwork: true: must not be true" in shown


def rejections(gpufleet: Command) -> list[dict[str, Any]]:
    return list(gpufleet("rejections", "--json")["rejections"])


def dead_letters(gpufleet: Command, fleet: Fleet) -> list[dict[str, Any]]:
    return list(gpufleet("dead-letters", "list", fleet.queue, "--json")["dead_letters"])


def test_a_dead_letter_whose_cause_is_gone_becomes_a_job_when_it_is_sent_back(gpufleet: Command, fleet: Fleet) -> None:
    name = f"redriven-{uuid.uuid4().hex[:8]}"
    fleet.drop(json.dumps({"s3": {"bucket": "gpufleet", "key": f"later/{name}.json"}}))
    letter = until(lambda: next((one for one in dead_letters(gpufleet, fleet) if name in one["body"]), None))
    assert name in gpufleet("dead-letters", "show", fleet.queue, letter["id"])
    s3 = fleet.client("s3")
    s3.put_object(Bucket="gpufleet", Key=f"later/{name}.json", Body=a_message(a_job(name)).encode())
    s3.close()

    gpufleet("dead-letters", "redrive", fleet.queue, letter["id"])

    until(lambda: any(job["name"] == name for job in gpufleet("jobs", "--json")["jobs"]))
    assert not any(name in one["body"] for one in dead_letters(gpufleet, fleet))


def test_a_dead_letter_is_discarded(gpufleet: Command, fleet: Fleet) -> None:
    mark = uuid.uuid4().hex
    fleet.drop(f"no json {mark}")
    letter = until(lambda: next((one for one in dead_letters(gpufleet, fleet) if mark in one["body"]), None))

    gpufleet("dead-letters", "discard", fleet.queue, letter["id"])

    assert not any(mark in one["body"] for one in dead_letters(gpufleet, fleet))
    gpufleet("dead-letters", "show", fleet.queue, letter["id"], code=3)


def test_the_counts_are_those_of_the_lists(gpufleet: Command, tmp_path: Path) -> None:
    gpufleet("job", submitted(gpufleet, tmp_path, a_job()), "--watch")

    def agree() -> bool:  # not at once, where a job of another test is just ending
        counts = gpufleet("stats", "--json")["by_region"]
        listed = {region: gpufleet("jobs", "--region", region, "--status", "succeeded", "--limit", "1000", "--json") for region in counts}
        return all(listed[region]["count"] == states["succeeded"] for region, states in counts.items())

    until(agree)


def test_what_is_not_there_and_what_is_not_allowed(gpufleet: Command, tmp_path: Path) -> None:
    gpufleet("job", "nonsense", code=3)
    gpufleet("events", str(uuid.uuid4()), code=3)
    gpufleet("jobs", "--region", "mars-north-1", code=2)
    gpufleet("jobs", "--cursor", "nonsense", code=2)
    gpufleet("rejections", "nonsense", code=3)
    gpufleet("dead-letters", "list", "nonsense", code=3)
    gpufleet("submit", a_file(tmp_path, a_job()), "--region", "mars-north-1", code=1)


def test_a_killed_worker_is_back_and_goes_on(gpufleet: Command, fleet: Fleet, tmp_path: Path) -> None:
    name = "dispatcher-eu-west-1-1"
    killed = fleet.embedded.kill(name)

    gpufleet("job", submitted(gpufleet, tmp_path, a_job(), "--region", "eu-west-1"), "--watch")

    assert fleet.embedded.processes[name].pid not in {None, killed}

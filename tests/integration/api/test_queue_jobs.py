"""Jobs through the GCO door: submit, replay, read, list, cancel, count."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from shared.errors import cut
from shared.jobs import transitions
from shared.jobs.model import Claim, ClusterObject
from shared.jobs.states import State
from tests.integration.api.conftest import manifest, serving, submission
from workers.api.dispatch_pass import PolledJob

JOBS = "/api/v1/queue/jobs"
RECORD = {
    "job_id", "job_name", "target_region", "namespace", "status", "priority", "manifest", "labels", "submitted_at", "submitted_by",
    "claimed_by", "claimed_at", "claim_generation", "lease_expires_at", "completed_at", "updated_at", "k8s_job_name",
    "k8s_job_namespace", "k8s_job_uid", "workload_not_created", "error_message", "status_history",
}  # fmt: skip
SPOT = {"spot_max_price", "spot_instance_type"}


async def submit(client, **fields):
    answer = await client.post(JOBS, json=submission(**fields))
    assert answer.status_code == 201, answer.text
    return answer.json()["job"]


async def run(core, job_id):
    """Lead a job to `running`, as a dispatcher and an observer would."""
    head = await core.jobs.head(job_id)
    [entry] = [one for one in await core.jobs.ready(head.region, 100) if one.job_id == job_id]
    now = core.clock.now()
    head = await core.jobs.claim(entry, Claim(owner="us-east-1/me", nonce="1" * 16, claimed_at=now, expires_at=now))
    moment = transitions.Moment(now=core.clock.now(), stamp="2" * 16)
    head = await core.jobs.write(transitions.committed(head, ClusterObject(name="train-x", uid="uid-1"), moment))
    return await core.jobs.write(transitions.running(head, None, transitions.Moment(now=core.clock.now(), stamp="3" * 16)))


async def test_a_job_is_queued_with_every_field_of_its_record(client):
    answer = await client.post(JOBS, json=submission(priority=7, labels={"team": "vision"}))

    body = answer.json()
    assert answer.status_code == 201
    assert body.keys() == {"timestamp", "message", "job"}
    assert body["job"].keys() == RECORD
    assert body["job"]["status"] == "queued"
    assert body["job"]["manifest"] == manifest()
    assert (body["job"]["priority"], body["job"]["labels"], body["job"]["job_name"]) == (7, {"team": "vision"}, "train")
    assert [entry["status"] for entry in body["job"]["status_history"]] == ["queued"]
    assert len(answer.headers["x-request-id"]) == 32


async def test_the_same_key_and_body_is_the_same_job(client):
    first = await client.post(JOBS, json=submission(), headers={"Idempotency-Key": "order-7"})
    second = await client.post(JOBS, json=submission(), headers={"Idempotency-Key": "order-7"})

    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()["message"] == "Idempotent job replay"
    assert second.json()["job"]["job_id"] == first.json()["job"]["job_id"]


async def test_the_same_key_with_another_body_is_a_conflict(client):
    first = await client.post(JOBS, json=submission(), headers={"Idempotency-Key": "order-7"})
    other = await client.post(JOBS, json=submission(priority=1), headers={"Idempotency-Key": "order-7"})

    assert other.status_code == 409
    stands_for = f"'order-7' stands for job {first.json()['job']['job_id']}, which another request made"
    assert other.json()["detail"] == f"job ID or idempotency key is already in use: {stands_for}"


async def test_ten_at_once_with_one_key_make_one_job(client):
    posts = (client.post(JOBS, json=submission(), headers={"Idempotency-Key": "order-7"}) for _ in range(10))
    answers = await asyncio.gather(*posts)

    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.json()["job"]["job_id"] for answer in answers}) == 1


async def test_a_submit_whose_bell_fails_is_accepted_and_its_replay_rings_again(client, core, fleet_resources):
    """Case 7."""
    sqs, name = fleet_resources.aws.sqs, fleet_resources.settings.dispatch_queue("us-east-1")
    url = (await sqs.get_queue_url(QueueName=name))["QueueUrl"]
    await sqs.delete_queue(QueueUrl=url)
    first = await client.post(JOBS, json=submission(), headers={"Idempotency-Key": "order-7"})
    await sqs.create_queue(QueueName=name)
    second = await client.post(JOBS, json=submission(), headers={"Idempotency-Key": "order-7"})

    job_id = first.json()["job"]["job_id"]
    rung = await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json()["job"]["job_id"] == job_id
    assert job_id in rung["Messages"][0]["Body"]
    assert [entry.job_id for entry in await core.jobs.ready("us-east-1", 10)] == [job_id]


async def test_one_job_is_read_with_its_history(client, core):
    job = await submit(client)
    await run(core, job["job_id"])

    found = (await client.get(f"{JOBS}/{job['job_id']}")).json()["job"]

    assert found.keys() == RECORD
    assert found["status"] == "running"
    assert [entry["status"] for entry in found["status_history"]] == ["queued", "claimed", "pending", "running"]
    assert (found["claimed_by"], found["claim_generation"]) == ("us-east-1/me", 1)
    assert (found["k8s_job_name"], found["k8s_job_namespace"], found["k8s_job_uid"]) == ("train-x", "gco-jobs", "uid-1")
    assert found["lease_expires_at"] is None


async def test_a_list_has_the_same_record(client, core):
    job = await submit(client)
    await run(core, job["job_id"])

    listed = (await client.get(JOBS)).json()
    [found] = listed["jobs"]
    read = (await client.get(f"{JOBS}/{job['job_id']}")).json()["job"]

    assert {name: value for name, value in found.items() if name != "status_history"} == {
        name: value for name, value in read.items() if name != "status_history"
    }
    assert [entry["status"] for entry in found["status_history"]] == ["queued", "claimed", "pending", "running"]
    assert (listed["count"], listed["next_cursor"], listed["partial"]) == (1, None, False)


async def test_a_spot_job_has_its_gate_in_its_record(client):
    job = await submit(client, max_spot_price=0.25, spot_instance_type="g5.xlarge")

    assert job.keys() == RECORD | SPOT
    assert (job["spot_max_price"], job["spot_instance_type"]) == ("0.250000", "g5.xlarge")


async def test_lists_filter_and_page_newest_first(client):
    made = [(await submit(client, target_region=region))["job_id"] for region in ["us-east-1", "eu-west-1"] * 3]

    first = (await client.get(JOBS, params={"target_region": "eu-west-1", "limit": 2})).json()
    rest = (await client.get(JOBS, params={"target_region": "eu-west-1", "limit": 2, "cursor": first["next_cursor"]})).json()

    assert [job["job_id"] for job in first["jobs"] + rest["jobs"]] == made[5:0:-2]
    assert rest["next_cursor"] is None


async def test_completed_and_succeeded_mean_the_same(client, core):
    job = await submit(client)
    head = await run(core, job["job_id"])
    await core.jobs.write(transitions.succeeded(head, None, transitions.Moment(now=core.clock.now(), stamp="4" * 16)))

    for status in ("completed", "succeeded"):
        assert [found["status"] for found in (await client.get(JOBS, params={"status": status})).json()["jobs"]] == ["succeeded"]
    assert (await client.get(JOBS, params={"status": "queued"})).json()["jobs"] == []


async def test_a_page_of_heavy_manifests_ends_before_it_is_too_heavy(client):
    heavy = manifest(env=[{"name": "DATA", "value": "x" * 1_400_000}])
    for _ in range(4):
        await submit(client, manifest=heavy)

    first = (await client.get(JOBS)).json()
    rest = (await client.get(JOBS, params={"cursor": first["next_cursor"]})).json()

    assert (first["count"], first["partial"]) == (2, True)
    assert len({job["job_id"] for job in first["jobs"] + rest["jobs"]}) == 4
    assert rest["next_cursor"] is None


async def test_a_queued_job_is_cancelled_at_once(client):
    job = await submit(client)

    answer = await client.delete(f"{JOBS}/{job['job_id']}", params={"reason": "not needed"})
    found = (await client.get(f"{JOBS}/{job['job_id']}")).json()["job"]

    assert answer.status_code == 200
    assert answer.json().keys() == {"timestamp", "message"}
    assert (found["status"], found["workload_not_created"]) == ("cancelled", True)
    assert found["status_history"][-1]["message"] == "not needed"


async def test_a_running_job_is_marked_to_be_stopped(client, core):
    job = await submit(client)
    await run(core, job["job_id"])

    answer = await client.delete(f"{JOBS}/{job['job_id']}")
    head = await core.jobs.head(job["job_id"])

    assert answer.status_code == 200
    assert "is being stopped on its cluster" in answer.json()["message"]
    assert head.stop is not None
    assert head.state is State.RUNNING


async def test_a_finished_job_can_not_be_cancelled(client):
    job = await submit(client)
    await client.delete(f"{JOBS}/{job['job_id']}")

    again = await client.delete(f"{JOBS}/{job['job_id']}")

    assert again.status_code == 409
    assert "already cancelled" in again.json()["detail"]


@pytest.mark.parametrize(
    "job_id", ["0198c0de-0000-7000-8000-0123456789ab", "x", "..", "a" * 300, "%00", "JOB%23x", "018F5B7E-0000-7000-8000-000000000000"]
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_an_unknown_id_of_any_form_is_not_found(shared_client, method, job_id):
    answer = await shared_client.request(method, f"{JOBS}/{job_id}")

    assert answer.status_code == 404
    if job_id != "..":  # which a client takes for a step up
        named = {"%00": "\0", "JOB%23x": "JOB#x"}.get(job_id, job_id)
        assert answer.json()["detail"] == f"Job '{cut(named)}' not found"


async def test_stats_count_from_counters(client, core):
    await submit(client, target_region="eu-west-1")
    job = await submit(client)
    await run(core, job["job_id"])

    stats = (await client.get("/api/v1/queue/stats")).json()

    assert stats["summary"] == {"total_jobs": 2, "total_queued": 1, "total_running": 1, "complete": True, "records_evaluated": 2}
    assert stats["by_region"]["eu-west-1"]["queued"] == 1
    assert stats["by_region"]["us-east-1"]["running"] == 1


async def test_a_poll_says_why_it_can_not_where_there_is_no_cluster(shared_client):
    answer = await shared_client.post("/api/v1/queue/poll")

    assert answer.status_code == 503
    assert "reaches no cluster" in answer.json()["detail"]


async def test_a_poll_runs_one_pass(core):
    asked = []

    async def poll(limit):
        asked.append(limit)
        return [PolledJob(job_id="a", status="applied"), PolledJob(job_id="b", status="fenced")]

    async with serving(dataclasses.replace(core, poll=poll)) as client:
        answer = (await client.post("/api/v1/queue/poll", params={"limit": 3})).json()

    assert asked == [3]
    assert (answer["region"], answer["jobs_polled"]) == ("us-east-1", 2)
    assert answer["results"][0] == {"job_id": "a", "status": "applied"}


async def test_any_region_is_placed(client):
    job = await submit(client, target_region="any")

    assert job["target_region"] in {"us-east-1", "eu-west-1"}


async def test_supporting_objects_retry_and_timeouts_are_stored(client, core):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "peers"}, "spec": {"clusterIP": "None"}}
    job = await submit(client, supporting=[service], retry={"max_attempts": 3}, timeouts={"total_seconds": 60})

    head = await core.jobs.head(job["job_id"])
    specification = (await core.jobs.specifications([head]))[head.id]
    assert specification.supporting == [service]
    assert (head.retry.max_attempts, head.timeouts.total_seconds) == (3, 60)

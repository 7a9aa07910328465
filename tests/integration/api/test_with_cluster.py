"""The API beside a cluster: a job that is submitted, dispatched by `poll`, and whose logs are followed to its end."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.region import job

JOBS = "/api/v1/queue/jobs"
LINES = "\n".join(f"step {number}" for number in range(20))


@pytest.fixture
async def client(cluster_client):
    return cluster_client


async def submit(client, **steering):
    answer = await client.post(JOBS, json={"manifest": job(**steering), "target_region": "any"})
    assert answer.status_code == 201, answer.text
    return answer.json()["job"]["job_id"]


async def test_a_poll_dispatches_what_is_ready(client, region):
    ids = {await submit(client) for _ in range(3)}

    first = (await client.post("/api/v1/queue/poll", params={"limit": 2})).json()
    second = (await client.post("/api/v1/queue/poll")).json()
    third = (await client.post("/api/v1/queue/poll")).json()

    assert (first["jobs_polled"], second["jobs_polled"], third["results"]) == (2, 1, [])
    assert {result["job_id"] for result in first["results"] + second["results"]} == ids
    assert {result["status"] for result in first["results"] + second["results"]} == {"applied"}
    assert len(await region.objects()) == 3


async def test_logs_are_followed_from_the_queue_to_the_end(client, region):
    job_id = await submit(client, duration=0.5, logs=LINES)
    following = asyncio.create_task(client.get(f"/fleet/v1/jobs/{job_id}/logs", params={"follow": True}, timeout=30))
    await region.observer()
    await client.post("/api/v1/queue/poll")

    answer = await following
    kept = await client.get(f"/fleet/v1/jobs/{job_id}/logs")

    assert answer.status_code == 200
    assert answer.text.splitlines() == LINES.splitlines()
    assert kept.text == answer.text
    assert (await client.get(f"{JOBS}/{job_id}")).json()["job"]["status"] == "succeeded"


async def test_live_logs_of_a_running_job(client, region):
    job_id = await submit(client, hang="true", logs="hello")
    await region.observer()
    await client.post("/api/v1/queue/poll")
    await region.until(job_id, "running")

    answer = await client.get(f"/fleet/v1/jobs/{job_id}/logs")
    other = await client.get(f"/fleet/v1/jobs/{job_id}/logs", params={"container": "other"})

    assert (answer.status_code, answer.text) == (200, "hello\n")
    assert other.status_code == 404
    assert "/main" in other.json()["detail"]

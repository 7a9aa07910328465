"""How a job's end is told through the API: in the list of the cluster's Jobs and in the record of the queue, which must not differ."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.region import job

OBJECTS = "/apis/batch/v1/namespaces/gco-jobs/jobs"
ENDS = {"succeeded", "failed", "cancelled"}


@pytest.fixture
async def client(cluster_client):
    return cluster_client


async def submit(client, **options):
    answer = await client.post("/api/v1/queue/jobs", json={"manifest": job(**options), "target_region": "us-east-1"})
    assert answer.status_code == 201, answer.text
    return answer.json()["job"]["job_id"]


async def record(client, job_id):
    return (await client.get(f"/api/v1/queue/jobs/{job_id}")).json()["job"]


async def listed(client, job_id, **query):
    found = [one for one in (await client.get("/api/v1/jobs", params=query)).json()["jobs"] if one["job_id"] == job_id]
    return found[0] if found else None


async def ended(client, job_id):
    async with asyncio.timeout(20):
        while (found := await record(client, job_id))["status"] not in ENDS:
            await asyncio.sleep(0.05)
    return found


async def test_a_pod_that_fails_within_its_backoff_limit_is_told_as_no_failure(client, region):
    """Case 9: one pod fails, the next one succeeds; nobody who looks in between is told of a failure."""
    await region.dispatcher()
    await region.observer()
    job_id = await submit(client, backoff_limit=2, exit_code="1,0", duration=0.4)

    in_between, words = [], set()
    async with asyncio.timeout(20):
        while (found := await record(client, job_id))["status"] not in ENDS:
            words.add(found["status"])
            seen = await listed(client, job_id)
            if seen is not None and seen["status"]["failed"] == 1 and seen["computed_status"] != "succeeded":
                in_between.append(seen["computed_status"])
                assert await listed(client, job_id, status="failed") is None
    done = await record(client, job_id)
    seen = await listed(client, job_id, status="completed")

    assert set(in_between) == {"pending", "running"}
    assert "failed" not in words
    assert (done["status"], done["error_message"]) == ("succeeded", None)
    assert [entry["status"] for entry in done["status_history"]] == ["queued", "claimed", "pending", "running", "succeeded"]
    assert (seen["computed_status"], seen["status"]["failed"], seen["status"]["succeeded"]) == ("succeeded", 1, 1)


async def test_a_job_whose_last_pod_fails_is_told_as_failed_by_both(client, region):
    await region.dispatcher()
    await region.observer()
    job_id = await submit(client, backoff_limit=1, exit_code="1", duration=0.05)

    done = await ended(client, job_id)

    assert done["status"] == "failed"
    assert (await listed(client, job_id, status="failed"))["computed_status"] == "failed"


async def test_a_job_that_its_owner_deletes_on_the_cluster_has_failed(client, region):
    """Case 12: with kubectl, while it runs: failed, "deleted on the cluster", and no longer among the cluster's Jobs."""
    await region.dispatcher()
    await region.observer()
    job_id = await submit(client, hang="true")
    async with asyncio.timeout(20):
        while (found := await record(client, job_id))["status"] != "running":
            await asyncio.sleep(0.05)

    await region.api.request("DELETE", f"{OBJECTS}/{found['k8s_job_name']}", body={"propagationPolicy": "Background"})
    done = await ended(client, job_id)

    assert done["status"] == "failed"
    assert done["error_message"].startswith("deleted on the cluster")
    assert await listed(client, job_id) is None


async def test_one_that_is_deleted_through_the_api_is_cancelled(client, region):
    """The same deletion as in case 12, but by somebody who asked us."""
    await region.dispatcher()
    await region.observer()
    job_id = await submit(client, hang="true")
    async with asyncio.timeout(20):
        while (found := await record(client, job_id))["status"] != "running":
            await asyncio.sleep(0.05)

    answer = await client.delete(f"/api/v1/jobs/gco-jobs/{found['k8s_job_name']}", params={"expected_uid": found["k8s_job_uid"]})
    done = await ended(client, job_id)

    assert (answer.status_code, answer.json()["uid"]) == (200, found["k8s_job_uid"])
    assert (done["status"], done["error_message"]) == ("cancelled", None)
    assert done["status_history"][-1]["message"] == "deleted through the API"
    assert await listed(client, job_id) is None

"""Cases 14 and 15: large manifests are stored and applied up to the documented limit, and refused beyond with size and limit."""

from __future__ import annotations

import pytest

from tests.integration.api.conftest import manifest, submission
from tests.integration.api.manifests import statuses, submit
from tests.integration.region import job

JOBS = "/api/v1/queue/jobs"
KIB = 1024


def with_env(value):
    return manifest(env=[{"name": "DATA", "value": value}])


@pytest.mark.parametrize("value", ["x" * 255 * KIB, "x" * 390_000, "x" * 401_000, "é" * 250_000, "é" * 500_000], ids=len)
async def test_a_large_manifest_is_stored_whole(shared_client, value):
    answer = await shared_client.post(JOBS, json=submission(manifest=with_env(value)))
    found = await shared_client.get(f"{JOBS}/{answer.json()['job']['job_id']}")

    assert answer.status_code == 201
    assert found.json()["job"]["manifest"] == with_env(value)


async def test_one_that_does_not_compress_goes_to_s3(client, core, fleet_resources):
    import random

    chance = random.Random(3)
    value = "".join(chr(chance.randint(0x4E00, 0x9FFF)) for _ in range(300_000))
    answer = await client.post(JOBS, json=submission(manifest=with_env(value)))
    found = await client.get(f"{JOBS}/{answer.json()['job']['job_id']}")

    assert found.json()["job"]["manifest"] == with_env(value)
    assert (await fleet_resources.aws.s3.list_objects_v2(Bucket=fleet_resources.settings.bucket))["KeyCount"] == 1


@pytest.mark.parametrize("size", [1_600_000, 2_200_000])
async def test_one_beyond_the_limit_is_refused_with_size_and_limit(shared_client, size):
    answer = await shared_client.post(JOBS, json=submission(manifest=with_env("x" * size)))
    [problem] = answer.json()["detail"]

    assert answer.status_code == 422
    assert problem["pointer"] == "/manifest"
    assert problem["ctx"]["size"] > size > problem["ctx"]["limit"]


async def test_300_kib_of_env_make_a_message_below_2_kib(client, fleet_resources):
    answer = await client.post(JOBS, json=submission(manifest=with_env("x" * 300 * KIB)))
    sqs, name = fleet_resources.aws.sqs, fleet_resources.settings.dispatch_queue("us-east-1")
    url = (await sqs.get_queue_url(QueueName=name))["QueueUrl"]
    [message] = (await sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1))["Messages"]

    assert answer.status_code == 201
    assert len(message["Body"].encode()) < 2 * KIB


@pytest.mark.parametrize("cpu", [2, 0.5, "1e1", "1E1", "100m", ".5", "1.", "+1"])
async def test_quantities_as_kubernetes_writes_them_are_taken(shared_client, cpu):
    """Case 17."""
    wanted = manifest(resources={"limits": {"cpu": cpu, "memory": "129e6"}})
    answer = await shared_client.post(JOBS, json=submission(manifest=wanted))

    assert answer.status_code == 201, answer.text
    assert answer.json()["job"]["manifest"] == wanted


@pytest.mark.parametrize("value", ["x" * 255 * 1024, "x" * 390_000, "x" * 401_000, "é" * 250_000], ids=len)
async def test_large_manifests_are_applied_whole(cluster_client, region, value):
    """Case 14."""
    manifest = job("large", hang="true")
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "DATA", "value": value}]

    code, body = await submit(cluster_client, manifest)

    assert (code, statuses(body)) == (200, [("Job", "large", "created")])
    [standing] = await region.objects()
    assert standing["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "DATA", "value": value}]


@pytest.mark.parametrize("value", ["x" * 401_000, "é" * 250_000], ids=len)
async def test_large_manifests_reach_the_cluster_through_the_queue_too(cluster_client, region, value):
    """Case 14."""
    manifest = job("large", hang="true")
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "DATA", "value": value}]

    queued = await cluster_client.post(JOBS, json={"manifest": manifest, "target_region": "us-east-1"})
    polled = await cluster_client.post("/api/v1/queue/poll")

    assert (queued.status_code, polled.json()["results"][0]["status"]) == (201, "applied")
    [standing] = await region.objects()
    assert {"name": "DATA", "value": value} in standing["spec"]["template"]["spec"]["containers"][0]["env"]

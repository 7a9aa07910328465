"""One Job through the GCO door, in each of its views: found or not, told in one word, and asked of the cluster in few requests."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.api.job_views import JOBS, NAMESPACE, VIEWS, running, start, until, view
from tests.integration.clusters.builders import Counting
from tests.integration.region import REGION


@pytest.fixture
async def client(cluster_client):
    return cluster_client


@pytest.fixture
async def counting(cluster_access):
    """Counts what the API asks of its cluster."""
    api = await cluster_access.api(REGION)
    api._transport = Counting(api._transport)
    return api._transport


@pytest.mark.parametrize("what", VIEWS)
async def test_a_job_that_is_not_there_is_a_404(client, what):
    answer = await client.get(f"/api/v1/jobs/{NAMESPACE}/nothing{what}")

    assert (answer.status_code, answer.json()["detail"]) == (404, "Job 'nothing' not found")


@pytest.mark.parametrize("what", VIEWS)
async def test_a_job_whose_name_speaks_of_not_found_is_found(client, region, what):
    await start(region, "notfound-404", suspend=True)

    answer = await client.get(f"/api/v1/jobs/{NAMESPACE}/notfound-404{what}")

    assert answer.status_code == (404 if what == "/metrics" else 200)
    assert what != "/metrics" or "Pods" in answer.json()["detail"]


@pytest.mark.parametrize("what", VIEWS)
async def test_a_namespace_that_is_not_allowed_is_a_403(client, what):
    answer = await client.get(f"/api/v1/jobs/kube-system/train{what}")

    assert answer.status_code == 403
    assert answer.json()["detail"] == "Namespace 'kube-system' not allowed. Allowed namespaces: ['gco-jobs']"


@pytest.mark.parametrize("name", ["%2e%2e", "%2E", "a%2F..%2Fb", "a%00b", "A_b", "x" * 300])
async def test_what_is_no_name_is_a_404(client, name):
    assert (await client.get(f"/api/v1/jobs/{NAMESPACE}/{name}/events")).status_code == 404


@pytest.mark.parametrize("what", VIEWS)
async def test_a_cluster_that_refuses_us_is_a_502_and_one_that_is_away_a_503(client, region, what):
    await start(region)
    region.fault(path="/jobs/train", status=403)
    refused = await client.get(f"/api/v1/jobs/{NAMESPACE}/train{what}")
    region.fault(path="/jobs/train", status=503)
    away = await client.get(f"/api/v1/jobs/{NAMESPACE}/train{what}")

    assert (refused.status_code, away.status_code) == (502, 503)


async def test_the_pods_of_an_earlier_job_of_the_name_are_not_its_own(client, region):
    await start(region)
    (old,) = (await until(client, running(1), what="/pods"))["pods"]
    # Jobs that are deleted without a word about their pods leave them behind.
    await region.api.request("DELETE", f"{JOBS}/train")
    await start(region)
    (new,) = (await until(client, running(1), what="/pods"))["pods"]

    found = await view(client)
    events = await view(client, what="/events")
    metrics = await view(client, what="/metrics")
    there = await region.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods", query={"labelSelector": "job-name=train"})

    assert {pod["metadata"]["name"] for pod in there["items"]} == {old["metadata"]["name"], new["metadata"]["name"]}
    assert [pod["name"] for node in found["scheduling"]["nodes"] for pod in node["pods"]] == [new["metadata"]["name"]]
    assert {event["involvedObject"]["name"] for event in events["events"]} == {"train", new["metadata"]["name"]}
    assert old["metadata"]["name"] not in str(events)
    assert [pod["pod_name"] for pod in metrics["pods"]] == [new["metadata"]["name"]]


async def test_a_pod_that_failed_within_the_limit_is_no_failure_of_its_job(client, region):
    await start(region, steer={"exit-code": "1,0", "duration": "0.1"}, backoffLimit=2)

    async with asyncio.timeout(15):
        seen = set()
        while (found := await view(client))["computed_status"] != "succeeded":
            seen.add((found["computed_status"], found["status"]["failed"]))
            await asyncio.sleep(0.02)

    assert not any(word == "failed" for word, _ in seen)
    assert ("pending", 1) in seen or ("running", 1) in seen
    assert found["status"]["failed"] == 1
    assert found["status"]["completionTime"]
    last = {condition["type"]: condition for condition in found["status"]["conditions"]}["Complete"]
    assert (last["status"], last["reason"]) == ("True", "CompletionsReached")
    assert last["lastTransitionTime"]


async def test_a_job_with_many_pods_costs_few_requests(client, region, counting):
    await start(region, limits={"cpu": "100m"}, parallelism=20, completions=20)
    nodes = len((await until(client, running(20), what="/pods"))["scheduling"]["nodes"])
    asked = {}

    for what in VIEWS:
        before = len(counting.requests)
        await view(client, what=what)
        asked[what] = len(counting.requests) - before

    assert asked == {"": 2 + nodes, "/events": 4, "/pods": 2 + nodes, "/metrics": 3}


async def test_a_job_of_the_queue_names_the_fleet_s_job(client, region):
    head = await region.submit()
    await region.dispatcher()
    await region.observer()
    ended = await region.until(head.id, "succeeded")

    found = await view(client, ended.object.name)

    assert (found["job_id"], found["execution"]) == (head.id, 1)
    assert found["metadata"]["uid"] == ended.object.uid

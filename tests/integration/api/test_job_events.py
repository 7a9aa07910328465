"""What happened to a Job and its pods, through the GCO door: the newest first, with those of pods that are gone."""

from __future__ import annotations

import pytest

from tests.integration.api.job_views import NAMESPACE, reasons, running, start, until, view


@pytest.fixture
async def client(cluster_client):
    return cluster_client


async def test_the_events_of_a_failed_job(client, region):
    made = await start(region, steer={"exit-code": "1", "duration": "0"}, backoffLimit=1)
    await until(client, lambda found: found["computed_status"] == "failed")

    found = await until(client, lambda found: "BackoffLimitExceeded" in reasons(found), what="/events")

    assert found["job_name"] == "train"
    assert found["namespace"] == NAMESPACE
    assert found["count"] == len(found["events"])
    assert (found["truncated"], found["hint"]) == (False, None)
    assert reasons(found, "Job") == {"SuccessfulCreate", "BackoffLimitExceeded"}
    assert {"Scheduled", "Pulled", "Created", "Started"} <= reasons(found, "Pod")
    assert len({event["involvedObject"]["name"] for event in found["events"]}) == 3
    times = [event["lastTimestamp"][: len("2026-01-01T00:00:00")] for event in found["events"]]
    assert times == sorted(times, reverse=True)
    newest = found["events"][0]
    assert (newest["reason"], newest["type"]) == ("BackoffLimitExceeded", "Warning")
    assert newest["source"] == {"component": "job-controller", "host": None}
    assert newest["involvedObject"] == {"kind": "Job", "name": "train", "namespace": NAMESPACE}
    started = next(event for event in found["events"] if event["reason"] == "Started")
    pods = await view(client, what="/pods")
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods["pods"]}
    assert started["source"] == {"component": "kubelet", "host": nodes[started["involvedObject"]["name"]]}
    placed = next(event for event in found["events"] if event["reason"] == "Scheduled")
    assert placed["source"] == {"component": "default-scheduler", "host": None}
    assert placed["firstTimestamp"] == placed["lastTimestamp"] is not None
    assert placed["count"] == 1
    assert made["metadata"]["name"] == "train"


async def test_events_of_pods_that_are_gone_are_told(client, region):
    await start(region, backoffLimit=3)
    (pod,) = (await until(client, running(1), what="/pods"))["pods"]
    name = pod["metadata"]["name"]
    await region.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}", body={"gracePeriodSeconds": 0})
    await until(client, lambda found: name not in str(found), what="/pods")

    found = await view(client, what="/events")

    assert {"Scheduled", "Started"} <= {event["reason"] for event in found["events"] if event["involvedObject"]["name"] == name}


async def test_events_that_are_left_out_are_told_of(client, region, monkeypatch):
    await start(region)
    await until(client, lambda found: "Started" in reasons(found), what="/events")
    monkeypatch.setattr("shared.clusters.job_events.MOST_TOLD", 2)

    found = await view(client, what="/events")

    assert (found["count"], len(found["events"]), found["truncated"]) == (2, 2, True)
    assert found["hint"] == "3 older events are left out; kubectl events shows all"

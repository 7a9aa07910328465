"""Where the pods of a Job are, through the GCO door: their nodes, why they wait, and the state of their containers."""

from __future__ import annotations

import pytest

from tests.integration.api.job_views import NAMESPACE, reasons, running, start, until, view


@pytest.fixture
async def client(cluster_client):
    return cluster_client


async def test_a_job_with_pods_on_spot_and_other_nodes(client, region):
    made = await start(region, limits={"cpu": "10"}, parallelism=3, completions=3, env=[{"name": "TOKEN", "value": "s3cret"}])
    await start(region, "other", parallelism=2, completions=2)
    await until(client, running(3), what="/pods")

    found = await view(client)

    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert found["metadata"]["annotations"] == {"team": "vision"}
    assert found["spec"]["parallelism"] == 3
    assert found["spec"]["backoffLimit"] == 0
    assert found["spec"]["template"]["spec"] == {"containers": [{"name": "main", "image": "pytorch/pytorch:2.5"}], "initContainers": []}
    assert "s3cret" not in str(found)
    assert found["computed_status"] == "running"
    assert (found["status"]["active"], found["status"]["failed"], found["status"]["conditions"]) == (3, 0, [])
    scheduling = found["scheduling"]
    assert (scheduling["unscheduled_pods"], scheduling["unscheduled"], scheduling["node_lookup_error"]) == (0, [], None)
    assert len({node["name"] for node in scheduling["nodes"]}) == 3
    assert {(node["instance_type"], node["capacity_type"]) for node in scheduling["nodes"]} <= {
        ("g5.12xlarge", "spot"),
        ("m5.4xlarge", "on-demand"),
    }
    assert [len(node["pods"]) for node in scheduling["nodes"]] == [1, 1, 1]
    first = scheduling["nodes"][0]
    assert (scheduling["node_name"], scheduling["node_instance_type"]) == (first["name"], first["instance_type"])
    assert (scheduling["node_capacity_type"], scheduling["node_labels"]) == (first["capacity_type"], first["labels"])
    assert first["labels"]["topology.kubernetes.io/region"] == "us-east-1"
    assert (found["job_id"], found["execution"]) == (None, None)


async def test_spot_nodes_are_told_by_karpenter_s_word(client, region):
    await start(region, limits={"nvidia.com/gpu": 4})
    await until(client, running(1), what="/pods")

    (pod,) = (await view(client, what="/pods"))["pods"]

    assert (pod["node"]["instance_type"], pod["node"]["capacity_type"]) == ("g5.12xlarge", "spot")
    assert pod["node"]["name"] == pod["spec"]["nodeName"]


async def test_a_pod_that_fits_nowhere_has_the_scheduler_s_reason(client, region):
    await start(region, limits={"nvidia.com/gpu": 64})

    found = await until(client, lambda found: any(one["reason"] for one in found["scheduling"]["unscheduled"]))
    pods = await view(client, what="/pods")
    events = await view(client, what="/events")

    (waiting,) = found["scheduling"]["unscheduled"]
    assert found["scheduling"]["unscheduled_pods"] == 1
    assert waiting["reason"].startswith("0/6 nodes are available: ")
    assert "Insufficient nvidia.com/gpu" in waiting["reason"]
    assert found["scheduling"]["node_name"] is None
    assert found["computed_status"] == "pending"
    assert pods["pods"][0]["node"] is None
    assert pods["pods"][0]["spec"]["nodeName"] is None
    assert pods["pods"][0]["status"]["containerStatuses"] == []
    assert reasons(events, "Pod") == {"FailedScheduling"}


async def test_containers_tell_their_state(client, region):
    initial = [{"name": "fetch", "image": "busybox"}]
    await start(region, "runs", pod={"initContainers": initial})
    await start(region, "fails", steer={"duration": "0", "exit-code": "3"})
    (runs,) = (await until(client, running(1), "runs", "/pods"))["pods"]
    found = await until(client, lambda found: found["pods"][0]["status"]["phase"] == "Failed", "fails", "/pods")

    (running_one,) = runs["status"]["containerStatuses"]
    assert (running_one["state"], running_one["ready"], running_one["restartCount"]) == ("running", True, 0)
    assert running_one["startedAt"]
    assert "exitCode" not in running_one
    assert "reason" not in running_one
    assert runs["spec"]["initContainers"] == initial
    (init,) = runs["status"]["initContainerStatuses"]
    assert (init["name"], init["state"], init["exitCode"], init["reason"]) == ("fetch", "terminated", 0, "Completed")
    (ended,) = found["pods"][0]["status"]["containerStatuses"]
    assert (ended["state"], ended["exitCode"], ended["reason"]) == ("terminated", 3, "Error")
    assert runs["status"]["hostIP"]
    assert runs["status"]["podIP"]


async def test_containers_that_wait_tell_why(client, region):
    await start(region, steer={"duration": "0", "exit-code": "1"}, pod={"restartPolicy": "OnFailure"}, backoffLimit=50)

    found = await until(client, lambda found: found["pods"] and "waiting" in str(found["pods"][0]["status"]), what="/pods")

    (waiting,) = found["pods"][0]["status"]["containerStatuses"]
    assert (waiting["state"], waiting["reason"]) in [("waiting", "CrashLoopBackOff"), ("waiting", "ContainerCreating")]
    assert waiting["ready"] is False


async def test_nodes_that_may_not_be_read_cost_only_their_details(client, region):
    await start(region)
    await until(client, running(1), what="/pods")
    region.fault(path="/nodes/", status=403, times=2)

    found = await view(client)
    pods = await view(client, what="/pods")

    for scheduling in (found["scheduling"], pods["scheduling"]):
        assert scheduling["node_lookup_error"] == "a fault was injected here"
        assert scheduling["node_name"] == scheduling["nodes"][0]["name"]
        assert scheduling["nodes"][0]["instance_type"] is None
        assert scheduling["nodes"][0]["labels"] == {}
    assert found["computed_status"] == "running"
    assert pods["pods"][0]["node"]["capacity_type"] is None


async def test_pods_that_may_not_be_read_cost_the_job_only_its_scheduling(client, region):
    await start(region)
    region.fault(path="/pods$", status=403, times=2)

    found = await view(client)
    refused = await client.get(f"/api/v1/jobs/{NAMESPACE}/train/pods")

    assert "a fault was injected here" in found["scheduling"]["node_lookup_error"]
    assert found["scheduling"]["nodes"] == []
    assert refused.status_code == 502


async def test_a_node_that_is_gone_is_told(client, region):
    await start(region, limits={"nvidia.com/gpu": 4}, steer={"duration": "0"})
    found = await until(client, lambda found: found["computed_status"] == "succeeded")
    node = found["scheduling"]["node_name"]
    await region.api.request("DELETE", f"/api/v1/nodes/{node}")

    gone = await view(client)

    assert gone["scheduling"]["node_name"] == node
    assert gone["scheduling"]["node_instance_type"] is None
    assert gone["scheduling"]["node_lookup_error"] == f"node {node} is no longer in the cluster"

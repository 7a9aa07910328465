"""One Job through the GCO door: where its pods are, what happened to it, and what it uses; against a simulated cluster over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.api.conftest import serving
from tests.integration.clusters.builders import Counting
from tests.integration.region import REGION, SIMULATION
from workers.api.cluster_access import ClusterAccess
from workers.api.core import build

NAMESPACE = "gco-jobs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
VIEWS = ("", "/events", "/pods", "/metrics")


@pytest.fixture
async def access(region, tmp_path):
    found = ClusterAccess(region.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"}))
    yield found
    await found.close()


@pytest.fixture
async def client(region, access):
    async with serving(await build(region.settings, region.aws, access=access)) as found:
        yield found


@pytest.fixture
async def counting(access):
    """Counts what the API asks of its cluster."""
    api = await access.api(REGION)
    api._transport = Counting(api._transport)
    return api._transport


def job(name="train", *, limits=None, pod=None, steer=None, env=(), **spec):
    """A Job whose pods run until they are told otherwise."""
    steering = {"hang": "true"} if steer is None else steer
    container = {"name": "main", "image": "pytorch/pytorch:2.5", "env": list(env), "resources": {"limits": limits or {"cpu": "1"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {"team": "vision"}},
        "spec": {
            "backoffLimit": 0,
            **spec,
            "template": {
                "metadata": {"annotations": {SIMULATION + key: value for key, value in steering.items()}},
                "spec": {"restartPolicy": "Never", "tolerations": [GPU], "containers": [container], **(pod or {})},
            },
        },
    }


async def start(region, *args, **options):
    return await region.api.request("POST", JOBS, body=job(*args, **options))


async def view(client, name="train", what=""):
    answer = await client.get(f"/api/v1/jobs/{NAMESPACE}/{name}{what}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def until(client, holds, name="train", what=""):
    """Ask until the answer is as it is to be."""
    async with asyncio.timeout(15):
        while not holds(found := await view(client, name, what)):
            await asyncio.sleep(0.05)
    return found


def running(number):
    def holds(found):
        return [pod["status"]["phase"] for pod in found["pods"]] == ["Running"] * number

    return holds


def reasons(found, kind=None):
    return {event["reason"] for event in found["events"] if kind in (None, event["involvedObject"]["kind"])}


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


async def test_a_job_with_many_pods_costs_few_requests(client, region, counting):
    await start(region, limits={"cpu": "100m"}, parallelism=20, completions=20)
    nodes = len((await until(client, running(20), what="/pods"))["scheduling"]["nodes"])
    asked = {}

    for what in VIEWS:
        before = len(counting.requests)
        await view(client, what=what)
        asked[what] = len(counting.requests) - before

    assert asked == {"": 2 + nodes, "/events": 4, "/pods": 2 + nodes, "/metrics": 3}


async def test_what_the_pods_of_a_job_use(client, region):
    await start(region, limits={"cpu": "500m", "memory": "1Gi"}, parallelism=3, completions=3)
    await start(region, "other")

    found = await until(client, lambda found: all("containers" in pod for pod in found["pods"]), what="/metrics")

    assert (found["job_name"], found["namespace"], found["available"], found["message"]) == ("train", NAMESPACE, True, None)
    assert {pod["pod_name"] for pod in found["pods"]} == {pod["metadata"]["name"] for pod in (await view(client, what="/pods"))["pods"]}
    used = [container for pod in found["pods"] for container in pod["containers"]]
    assert [container["name"] for container in used] == ["main"] * 3
    assert all(150 < container["cpu_millicores"] < 500 for container in used)
    assert all(2**28 < container["memory_bytes"] < 2**30 for container in used)
    assert used[0]["memory_mib"] == round(used[0]["memory_bytes"] / 2**20, 2)
    summary = found["summary"]
    assert summary["pod_count"] == 3
    assert summary["total_cpu_millicores"] == sum(container["cpu_millicores"] for container in used)
    assert summary["total_memory_bytes"] == sum(container["memory_bytes"] for container in used)
    assert summary["total_memory_mib"] == round(summary["total_memory_bytes"] / 2**20, 2)


async def test_a_pod_without_a_sample_says_so(client, region):
    await start(region, steer={"duration": "0"})
    await until(client, lambda found: found["computed_status"] == "succeeded")

    found = await view(client, what="/metrics")

    (pod,) = found["pods"]
    assert found["available"] is True
    assert pod["error"] == "Metrics not available: there is no sample of this pod, which is Succeeded"
    assert found["summary"] == {"total_cpu_millicores": 0, "total_memory_bytes": 0, "total_memory_mib": 0.0, "pod_count": 1}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "this cluster has no metrics server: it does not serve metrics.k8s.io"),
        (503, "metrics.k8s.io does not answer: "),
        (403, "metrics.k8s.io does not answer: "),
    ],
)
async def test_a_cluster_without_a_metrics_server_is_told_of(client, region, status, message):
    await start(region)
    await until(client, running(1), what="/pods")
    region.fault(path="/apis/metrics.k8s.io/", status=status)

    found = await view(client, what="/metrics")

    assert found["available"] is False
    assert found["message"].startswith(message)
    assert found["summary"] == {"total_cpu_millicores": 0, "total_memory_bytes": 0, "total_memory_mib": 0.0, "pod_count": 1}
    assert [pod["error"] for pod in found["pods"]] == ["Metrics not available"]


async def test_a_job_of_the_queue_names_the_fleet_s_job(client, region):
    head = await region.submit()
    await region.dispatcher()
    await region.observer()
    ended = await region.until(head.id, "succeeded")

    found = await view(client, ended.object.name)

    assert (found["job_id"], found["execution"]) == (head.id, 1)
    assert found["metadata"]["uid"] == ended.object.uid

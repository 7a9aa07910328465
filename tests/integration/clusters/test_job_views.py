"""Where a Job's pods are, what happened to them and what they use, asked of clusters of any size in few requests."""

from __future__ import annotations

import asyncio
import time

import pytest

from shared.clusters import job_events, scheduling
from shared.clusters.api import KubernetesApi
from shared.clusters.job_events import events_of
from shared.clusters.job_pods import pod_selector, pods_of
from shared.clusters.listing import whole_list
from shared.clusters.pod_metrics import ABSENT, Samples, samples_of
from shared.clusters.scheduling import scheduling_of, scheduling_of_job
from shared.errors import UnavailableError
from tests.integration.clusters.builders import NAMESPACE, Counting
from workers.local.cluster import Fault, InProcessTransport, NodeShape, SimulatedCluster

JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
MISSING = {"kind": "Job", "metadata": {"name": "train", "namespace": NAMESPACE, "uid": "u"}}


class Many:
    """A cluster of so many nodes, on which each pod has a node of its own."""

    def __init__(self, nodes: int, **options) -> None:
        shapes = [NodeShape(name=f"node-{number}", cpu="1", capacity_type="spot" if number % 2 else "on-demand") for number in range(nodes)]
        self.cluster = SimulatedCluster(
            name="many", region="eu-west-1", nodes=shapes, clock=time.time, seed=1, namespaces=(NAMESPACE,), **options
        )
        self.transport = InProcessTransport(self.cluster)
        self.counting = Counting(self.transport)
        self.api = KubernetesApi(self.counting)

    async def start(self, pods: int = 1, *, name: str = "train", **spec):
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        template = {
            "metadata": {"annotations": {"simulation.gpufleet.io/hang": "true"}, "labels": {"app": "trainer"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        manifest = {"metadata": {"name": name}, "spec": {"parallelism": pods, "completions": pods, "template": template, **spec}}
        await self.api.request("POST", JOBS, body={"apiVersion": "batch/v1", "kind": "Job", **manifest})
        async with asyncio.timeout(20):
            while await self.running(name) < pods:
                await asyncio.sleep(0.02)
        return await self.api.request("GET", f"{JOBS}/{name}")

    async def running(self, job: str) -> int:
        found = await self.api.request("GET", PODS, query={"fieldSelector": "status.phase=Running"})
        owners = [reference["name"] for pod in found["items"] for reference in pod["metadata"].get("ownerReferences", ())]
        return owners.count(job)

    async def asked(self, asking):
        """What a coroutine gives, and what it asked of the cluster."""
        before = len(self.counting.requests)
        return await asking, self.counting.requests[before:]

    def fault(self, **fields) -> None:
        self.transport.faults.add(Fault(**fields))

    async def tell(self, about: dict, reason: str, *, number: int = 0, **more) -> None:
        """An event as some component writes it."""
        about = {"kind": "Pod" if "spec" in about and "containers" in about["spec"] else "Job", "name": about["metadata"]["name"], **about}
        reference = {"kind": about["kind"], "name": about["name"], "namespace": NAMESPACE, "uid": about["metadata"]["uid"]}
        event = {
            "metadata": {"name": f"{reason.lower()}-{number}-{about['name']}", "namespace": NAMESPACE},
            "involvedObject": reference,
            "reason": reason,
            "message": f"message {number}",
            "type": "Normal",
            **more,
        }
        await self.api.request("POST", EVENTS, body=event)


async def test_few_nodes_are_read_one_by_one():
    many = Many(20)
    job = await many.start(scheduling.SINGLE_READS)

    found, asked = await many.asked(scheduling_of_job(many.api, job))

    assert sorted(asked) == sorted(["GET pods", *(f"GET {name}" for name in found.machines)])
    assert len(found.machines) == scheduling.SINGLE_READS
    assert {machine.capacity_type for machine in found.machines.values()} == {"spot", "on-demand"}
    assert found.error is None


async def test_many_nodes_are_listed_in_pages(monkeypatch):
    many = Many(30)
    job = await many.start(scheduling.SINGLE_READS + 1)
    monkeypatch.setattr(whole_list, "__kwdefaults__", {"page": 10})

    found, asked = await many.asked(scheduling_of_job(many.api, job))

    # The simulated scheduler goes by name, and so does the list: all of them stand on its first page.
    assert asked == ["GET pods", "GET nodes"]
    assert len(found.machines) == scheduling.SINGLE_READS + 1
    assert all(machine.instance_type == "m5.4xlarge" for machine in found.machines.values())
    assert found.error is None


async def test_of_many_nodes_those_that_are_gone_are_told_in_a_bounded_number_of_words():
    many = Many(12)
    job = await many.start(12)
    pods = await pods_of(many.api, job)
    for name in (f"node-{number}" for number in range(5)):
        await many.api.request("DELETE", f"/api/v1/nodes/{name}")

    found = await scheduling_of(many.api, pods)

    assert len(found.machines) == 12
    assert sum(machine.instance_type is None for machine in found.machines.values()) == 5
    assert found.error == "; ".join([*(f"node node-{number} is no longer in the cluster" for number in range(3)), "2 more"])


@pytest.mark.parametrize("pods", [2, 12])
async def test_one_fault_of_all_nodes_is_told_once(pods):
    many = Many(12)
    job = await many.start(pods)
    many.fault(path="/nodes", status=403, times=100)

    found = await scheduling_of_job(many.api, job)

    assert found.error == "a fault was injected here"
    assert len(found.machines) == pods


async def test_nodes_that_take_too_long_are_not_waited_for(monkeypatch):
    many = Many(2)
    job = await many.start(2)
    monkeypatch.setattr(scheduling, "LOOKUP_SECONDS", 0.1)
    many.fault(path="/nodes/node-0", action="delay", delay=5)

    found = await scheduling_of_job(many.api, job)

    assert found.error == "nodes were not read within 0.1 s"
    assert found.machines["node-0"].instance_type is None
    assert found.machines["node-1"].instance_type == "m5.4xlarge"


async def test_pods_are_read_page_by_page(monkeypatch):
    many = Many(1)
    job = await many.start(0, managedBy="tests.io/nobody")
    uid = job["metadata"]["uid"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    labels = {"batch.kubernetes.io/controller-uid": uid}
    spec = {"containers": [{"name": "main", "image": "busybox"}], "schedulingGates": [{"name": "tests/wait"}]}
    for number in range(25):
        metadata = {"name": f"pod-{number:02}", "labels": labels, "ownerReferences": [reference]}
        await many.api.request("POST", PODS, body={"metadata": metadata, "spec": spec})
    await many.api.request("POST", PODS, body={"metadata": {"name": "stranger", "labels": labels}, "spec": spec})
    monkeypatch.setattr(whole_list, "__kwdefaults__", {"page": 10})

    found, asked = await many.asked(pods_of(many.api, job))

    assert asked == ["GET pods"] * 3
    assert sorted(pod["metadata"]["name"] for pod in found) == [f"pod-{number:02}" for number in range(25)]


async def test_a_job_with_a_selector_of_its_own_has_its_own_pods():
    many = Many(3)
    selector = {"matchLabels": {"app": "trainer"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["trainer", "x"]}]}
    job = await many.start(2, manualSelector=True, selector=selector)
    await many.start(1, name="other")

    assert pod_selector(job) == "app=trainer,app in (trainer,x)"
    assert len(await pods_of(many.api, job)) == 2


@pytest.mark.parametrize(
    ("expressions", "text"),
    [
        ([{"key": "a", "operator": "NotIn", "values": ["1", "2"]}], "a notin (1,2)"),
        ([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}], "a,!b"),
        ([], "batch.kubernetes.io/controller-uid=u"),
    ],
)
def test_selectors_as_text(expressions, text):
    assert pod_selector({**MISSING, "spec": {"selector": {"matchExpressions": expressions}}}) == text


async def test_events_of_few_pods_are_asked_for_one_by_one_and_of_many_together():
    many = Many(12)
    few = await many.start(2, name="few")
    _, asked_for_few = await many.asked(events_of(many.api, few))
    lots = await many.start(10, name="lots")
    found, asked_for_lots = await many.asked(events_of(many.api, lots))

    assert asked_for_few == ["GET pods", *["GET events"] * 3]
    assert asked_for_lots == ["GET pods", *["GET events"] * 2]
    assert {event.name for event in found.events if event.kind == "Pod"} == {
        pod["metadata"]["name"] for pod in await pods_of(many.api, lots)
    }


async def test_both_ways_of_writing_events_are_read():
    many = Many(1, events=False)
    job = await many.start()
    writer = {"reportingComponent": "tests", "reportingInstance": "host-1", "eventTime": "2026-05-17T12:00:00.123456Z", "action": "Do"}
    await many.tell(job, "Single", **writer)
    series = {"count": 7, "lastObservedTime": "2026-05-17T13:00:00.5Z"}
    await many.tell(job, "Series", **writer, series=series)
    times = {"firstTimestamp": "2026-05-17T11:00:00Z", "lastTimestamp": "2026-05-17T12:30:00Z"}
    await many.tell(job, "Counted", count=3, source={"component": "old", "host": "node-0"}, **times)
    await many.tell(job, "Bare")

    found = {event.reason: event for event in (await events_of(many.api, job)).events}

    assert list(found) == ["Bare", "Series", "Counted", "Single"]
    assert [event.count for event in found.values()] == [1, 7, 3, 1]
    assert found["Single"].first == found["Single"].last
    assert found["Single"].first.isoformat() == "2026-05-17T12:00:00.123456+00:00"
    assert found["Series"].last.isoformat() == "2026-05-17T13:00:00.500000+00:00"
    assert [(event.component, event.host) for event in found.values()] == [
        (None, None),
        ("tests", None),
        ("old", "node-0"),
        ("tests", None),
    ]
    assert found["Bare"].last is not None


async def test_only_a_bounded_number_of_events_is_told(monkeypatch):
    many = Many(1, events=False)
    job = await many.start()
    for number in range(30):
        await many.tell(job, "Happens", number=number)
    monkeypatch.setattr(job_events, "MOST_TOLD", 20)

    found = await events_of(many.api, job)

    assert (len(found.events), found.left_out, found.unread) == (20, 10, False)
    assert [event.message for event in found.events] == [f"message {number}" for number in range(29, 9, -1)]


async def test_a_namespace_full_of_events_is_not_read_without_end(monkeypatch):
    many = Many(8, events=False)
    job = await many.start(6)
    (other,) = await pods_of(many.api, await many.start(1, name="other"))
    for number in range(30):
        await many.tell(other, "Happens", number=number)
    monkeypatch.setattr(job_events, "MOST_READ", 20)
    monkeypatch.setattr(whole_list, "__kwdefaults__", {"page": 10})

    found, asked = await many.asked(events_of(many.api, job))

    assert (found.events, found.unread) == ([], True)
    assert asked.count("GET events") == 1 + 3


async def test_what_others_say_of_a_job_leads_to_no_other_pods():
    many = Many(2, events=False)
    job = await many.start()
    (stranger,) = await pods_of(many.api, await many.start(1, name="other"))
    await many.tell(stranger, "Secret")
    for number, text in enumerate(["x,involvedObject.name!=x", "", "../nodes", "a=b", "UPPER"]):
        await many.tell(job, "SuccessfulCreate", number=number, message=f"Created pod: {text}")

    found = await events_of(many.api, job)

    assert {event.reason for event in found.events} == {"SuccessfulCreate"}


async def test_samples_come_in_one_request():
    many = Many(4)
    job = await many.start(3)
    async with asyncio.timeout(10):
        while len((await samples_of(many.api, job)).pods) < 3:
            await asyncio.sleep(0.05)

    found, asked = await many.asked(samples_of(many.api, job))

    assert asked == ["GET pods"]
    assert found.unavailable is None
    assert all(300 < one.cpu_millicores <= 1000 for (one,) in found.pods.values())


async def test_a_cluster_without_a_metrics_server():
    many = Many(1, metrics=False)
    job = await many.start()

    assert await samples_of(many.api, job) == Samples(pods={}, unavailable=ABSENT)


async def test_a_metrics_server_that_is_away():
    many = Many(1)
    job = await many.start()
    many.fault(path="/apis/metrics.k8s.io", status=503)

    found = await samples_of(many.api, job)

    assert found.unavailable is not None
    assert found.unavailable.startswith("metrics.k8s.io does not answer: ")


async def test_a_cluster_that_is_away_is_raised_where_nothing_can_be_told_without_it():
    many = Many(1)
    job = await many.start()
    many.fault(path="/(pods|events)$", action="drop", times=3)

    with pytest.raises(UnavailableError):
        await events_of(many.api, job)
    found = await scheduling_of_job(many.api, job)
    assert found.error is not None

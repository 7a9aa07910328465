"""Exporters of a simulated cluster: what they say follows from what runs, and nothing else changes for their sake."""

from __future__ import annotations

import re
from typing import Any

import pytest

from shared.metrics.devices import Vendor
from shared.metrics.reading import read_exporter
from shared.metrics.vocabulary import Measure
from tests.unit.cluster_sim.harness import JOBS, PODS, Bench, job

NODES = "1xg5.12xlarge,1xg4ad.16xlarge,1xonprem-mi300x.8gpu,1xm5.4xlarge"
ALL_PODS = "/api/v1/pods"


def bench(**options: Any) -> Bench:
    made = Bench(**{"nodes": NODES, "exporters": True} | options)
    made.run(1)
    return made


def exporters(found: Bench) -> dict[str, str]:
    """The path of each exporter by its node."""
    return {
        pod["spec"]["nodeName"]: f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        f":{pod['spec']['containers'][0]['ports'][0]['containerPort']}/proxy/metrics"
        for pod in found.get(ALL_PODS).items
        if pod["metadata"]["namespace"] != "default"
    }


def readings(found: Bench, node: str):
    answer = found.get(exporters(found)[node])
    assert answer.status == 200
    scraped = read_exporter(answer.text)
    assert scraped.broken == 0
    return scraped.readings


def gpu_job(count: int, resource: str = "nvidia.com/gpu", *, name: str = "j", **steer: str) -> dict[str, Any]:
    limits = {"resources": {"limits": {resource: str(count)}}}
    return job(name, steer=steer or {"hang": "true"}, pod={"tolerations": [{"operator": "Exists"}]}, container=limits)


def test_every_node_with_gpus_has_one_and_it_tells_of_each_gpu():
    found = bench()

    assert sorted(exporters(found)) == ["node-0", "node-1", "node-2"]
    assert [len(readings(found, node)) for node in ("node-0", "node-1", "node-2")] == [4, 4, 8]
    assert {one.device.vendor for one in readings(found, "node-0")} == {Vendor.NVIDIA}
    assert {one.device.vendor for one in readings(found, "node-1")} == {Vendor.AMD}
    assert Measure.MEMORY_TEMPERATURE not in readings(found, "node-0")[0].values
    assert Measure.MEMORY_TEMPERATURE in readings(found, "node-2")[0].values


@pytest.mark.parametrize(("resource", "node"), [("nvidia.com/gpu", "node-0"), ("amd.com/gpu", "node-1")])
def test_gpus_of_what_runs_are_busy_and_others_are_idle(resource, node):
    found = bench(nodes="1xg5.12xlarge,1xg4ad.16xlarge")
    found.post(JOBS, gpu_job(3, resource))
    found.run(1)

    held, idle = readings(found, node)[:3], readings(found, node)[3]

    (pod,) = found.get(PODS).names
    assert {(one.holder.namespace, one.holder.pod) for one in held} == {("default", pod)}
    assert all(one.values[Measure.UTILIZATION] > 80 and one.values[Measure.VRAM_USED] > 1000 for one in held)
    assert idle.holder is None
    assert idle.values[Measure.UTILIZATION] == 0
    assert idle.values[Measure.POWER] < held[0].values[Measure.POWER] / 2
    assert idle.values[Measure.PCIE_EFFICIENCY] < held[0].values[Measure.PCIE_EFFICIENCY] == 100


def test_a_pod_keeps_its_gpus_while_others_come_and_go():
    found = bench(nodes="1xg5.12xlarge")
    found.post(JOBS, gpu_job(1, name="short", duration="2"))
    found.run(0.5)
    found.post(JOBS, gpu_job(2, name="long"))
    found.run(0.5)
    before = [one.holder and one.holder.pod.partition("-")[0] for one in readings(found, "node-0")]
    found.run(3)

    after = [one.holder and one.holder.pod.partition("-")[0] for one in readings(found, "node-0")]

    assert before == ["short", "long", "long", None]
    assert after == [None, "long", "long", None]


def test_equal_clusters_say_the_same_and_values_move_with_time():
    first, second = bench(), bench()
    for one in (first, second):
        one.post(JOBS, gpu_job(2))
        one.run(1)
    path = exporters(first)["node-0"]

    assert exporters(first) == exporters(second)
    text = first.get(path).text
    assert text == second.get(path).text
    first.run(60)
    assert text != first.get(path).text


def test_nothing_else_is_different_for_their_sake():
    def story(**options: Any) -> list[Any]:
        found = Bench(nodes=NODES, events=False, namespaces=("gpu-operator", "kube-amd-gpu"), **options)
        found.run(1)
        for number in range(3):
            found.post(JOBS, gpu_job(2, name=f"j{number}", duration="1"))
        found.run(5)
        pods = found.get(PODS).items
        return [
            *((one["metadata"]["name"], one["spec"].get("nodeName"), one["status"]["phase"]) for one in pods),
            *((start.pod_name, round(start.time, 3)) for start in found.cluster.started),
        ]

    assert len(story()) == 6
    assert [one[0][:3] for one in story(exporters=True)] == [one[0][:3] for one in story()]
    assert [one[1:] for one in story(exporters=True)] == [one[1:] for one in story()]


def test_an_interrupted_node_takes_its_exporter_with_it_and_comes_back_with_one():
    found = bench()
    before = exporters(found)["node-0"]
    found.cluster.interrupt_node("node-0", back_after=2.0)
    found.run(1)

    assert "node-0" not in exporters(found)
    assert found.get(before).status == 404
    found.run(5)
    assert exporters(found)["node-0"] != before
    assert len(readings(found, "node-0")) == 4


def test_the_proxy_reaches_only_what_listens():
    found = bench()
    found.post(JOBS, gpu_job(1))
    found.run(1)
    path = exporters(found)["node-0"]
    (pod,) = found.get(PODS).names

    assert found.get(re.sub(r":\d+/", ":1/", path)).status == 503
    assert found.get(f"{PODS}/{pod}:9400/proxy/metrics").status == 503
    assert found.get(f"{PODS}/nobody:9400/proxy/metrics").status == 404
    assert found.get(path.replace("/metrics", "/debug")).status == 404
    assert found.post(path, {}).status == 405
    assert found.get(re.sub(r":\d+/", ":metrics/", path)).status == 200


def test_without_them_there_is_no_proxy_and_no_pod():
    found = Bench(nodes=NODES)
    found.run(1)

    assert found.get(ALL_PODS).items == []
    assert found.get(f"{PODS}/x:9400/proxy/metrics").status == 404

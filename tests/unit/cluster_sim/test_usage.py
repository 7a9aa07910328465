"""The metrics server of a simulated cluster."""

import pytest

from shared.clusters.quantities import parse_quantity
from tests.unit.cluster_sim.harness import PODS, Bench

METRICS = "/apis/metrics.k8s.io/v1beta1"
POD_METRICS = f"{METRICS}/namespaces/default/pods"
ASKS = {"resources": {"requests": {"cpu": "2", "memory": "4Gi"}}}


def amounts(usage):
    return float(parse_quantity(usage["cpu"])), int(parse_quantity(usage["memory"]))


def test_a_running_pod_uses_a_share_of_what_it_requests(bench):
    bench.start("train", 1.0, steer={"hang": "true"}, container=ASKS)
    (pod,) = bench.pods_of("train")

    (sample,) = bench.get(POD_METRICS, labelSelector="job-name=train").items

    assert sample["metadata"]["name"] == pod["metadata"]["name"]
    assert sample["metadata"]["namespace"] == "default"
    assert sample["metadata"]["labels"] == pod["metadata"]["labels"]
    assert sample["window"] == "15s"
    (container,) = sample["containers"]
    assert container["name"] == "main"
    assert container["usage"]["cpu"].endswith("n")
    assert container["usage"]["memory"].endswith("Ki")
    cpu, memory = amounts(container["usage"])
    assert 0.6 < cpu < 1.9
    assert 1 << 30 < memory < 4 << 30


def test_one_pod_can_be_asked_for(bench):
    bench.start("train", 1.0, steer={"hang": "true"})
    (pod,) = bench.pods_of("train")

    found = bench.get(f"{POD_METRICS}/{pod['metadata']['name']}").json
    missing = bench.get(f"{POD_METRICS}/nothing")

    assert (found["kind"], found["apiVersion"]) == ("PodMetrics", "metrics.k8s.io/v1beta1")
    assert missing.refusal == (404, "NotFound")
    assert missing.json["message"] == 'pods.metrics.k8s.io "default/nothing" not found'


def test_there_is_no_sample_before_the_first_and_after_the_end(bench):
    bench.start("train", 0.1, steer={"duration": "2"})
    assert [pod["status"]["phase"] for pod in bench.pods_of("train")] == ["Running"]
    assert bench.get(POD_METRICS).items == []

    bench.run(1)
    assert len(bench.get(POD_METRICS).items) == 1

    bench.run(5)
    assert [pod["status"]["phase"] for pod in bench.pods_of("train")] == ["Succeeded"]
    assert bench.get(POD_METRICS).items == []


def test_usage_changes_with_the_time_and_with_nothing_else(bench):
    def story():
        bench = Bench()
        bench.start("train", 1.0, steer={"hang": "true"}, container=ASKS)
        samples = []
        for _ in range(4):
            samples.append(bench.get(POD_METRICS).text)
            bench.run(15)
        return samples

    assert story() == story()
    assert len(set(story())) == 4


def test_nodes_use_what_their_pods_do(bench):
    idle = {sample["metadata"]["name"]: amounts(sample["usage"]) for sample in bench.get(f"{METRICS}/nodes").items}
    bench.start("train", 1.0, steer={"hang": "true"}, container=ASKS)
    (pod,) = bench.pods_of("train")
    name = pod["spec"]["nodeName"]
    (used,) = (amounts(container["usage"]) for container in bench.get(POD_METRICS).items[0]["containers"])

    found = bench.get(f"{METRICS}/nodes/{name}").json

    assert sorted(idle) == ["node-0", "node-1"]
    assert amounts(found["usage"]) == pytest.approx((idle[name][0] + used[0], idle[name][1] + used[1]))
    assert found["kind"] == "NodeMetrics"
    assert bench.get(f"{METRICS}/nodes", labelSelector=f"kubernetes.io/hostname={name}").names == [name]


def test_other_namespaces_are_apart(bench):
    bench.start("train", 1.0, steer={"hang": "true"})

    assert bench.get(f"{METRICS}/namespaces/kube-system/pods").items == []
    assert len(bench.get(f"{METRICS}/pods").items) == 1


def test_it_is_read_only(bench):
    for method in ("POST", "DELETE"):
        assert bench.call(method, POD_METRICS, {"metadata": {"name": "x"}}).status == 405
    assert bench.get(POD_METRICS, watch="true").status == 405


def test_discovery_shows_it(bench):
    assert "metrics.k8s.io" in [group["name"] for group in bench.get("/apis").json["groups"]]
    resources = {resource["name"]: resource for resource in bench.get(METRICS).json["resources"]}
    assert resources["pods"]["verbs"] == ["get", "list"]
    assert (resources["pods"]["kind"], resources["nodes"]["namespaced"]) == ("PodMetrics", False)


def test_a_cluster_may_have_none():
    bench = Bench(metrics=False)
    bench.start("train", 1.0, steer={"hang": "true"})

    assert "metrics.k8s.io" not in bench.get("/apis").text
    for path in (METRICS, POD_METRICS, f"{METRICS}/nodes"):
        assert bench.get(path).refusal == (404, "NotFound")
    assert len(bench.get(PODS).items) == 1

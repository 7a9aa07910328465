import pytest

from tests.unit.cluster_sim.harness import JOBS, PODS, Bench, conditions, job
from workers.local.cluster import NodeShape, parse_shapes

TOLERATE = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]}


def gpus(count: int) -> dict:
    return {"resources": {"limits": {"nvidia.com/gpu": count}}}


def where(bench: Bench, name: str) -> str | None:
    (pod,) = bench.pods_of(name)
    return pod["spec"].get("nodeName")


@pytest.fixture
def mixed() -> Bench:
    return Bench(
        nodes=[
            NodeShape.of_type("g5.12xlarge", name="gpu", capacity_type="spot", zone="eu-west-1b"),
            NodeShape(name="plain", cpu="2", memory="4Gi", labels={"tier": "small"}),
        ]
    )


def test_nodes_are_labelled_tainted_and_sized_as_on_eks(mixed):
    node = mixed.get("/api/v1/nodes/gpu").json

    assert node["status"]["allocatable"] == {
        "cpu": "48",
        "memory": "192Gi",
        "ephemeral-storage": "500Gi",
        "pods": "110",
        "nvidia.com/gpu": "4",
    }
    labels = node["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == "g5.12xlarge"
    assert labels["topology.kubernetes.io/zone"] == "eu-west-1b"
    assert labels["karpenter.sh/capacity-type"] == "spot"
    assert labels["eks.amazonaws.com/capacityType"] == "SPOT"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]


def test_a_pod_that_wants_a_gpu_goes_where_there_is_one(mixed):
    mixed.start("train", pod=TOLERATE, container=gpus(1))

    assert where(mixed, "train") == "gpu"


def test_a_taint_that_is_not_tolerated_keeps_pods_off(mixed):
    mixed.start("train", container=gpus(1))

    (pod,) = mixed.pods_of("train")
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert condition["message"].startswith("0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint")
    warnings = [event for event in mixed.get("/api/v1/events").items if event["type"] == "Warning"]
    assert [event["reason"] for event in warnings] == ["FailedScheduling"]


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        ({"key": "tier", "operator": "In", "values": ["small", "large"]}, "plain"),
        ({"key": "tier", "operator": "NotIn", "values": ["small"]}, "gpu"),
        ({"key": "tier", "operator": "Exists"}, "plain"),
        ({"key": "tier", "operator": "DoesNotExist"}, "gpu"),
        ({"key": "tier", "operator": "In", "values": ["large"]}, None),
    ],
)
def test_required_affinity(mixed, expression, node):
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}

    mixed.start("train", pod={**TOLERATE, "affinity": affinity})

    assert where(mixed, "train") == node


def test_a_node_selector(mixed):
    mixed.start("train", pod={**TOLERATE, "nodeSelector": {"karpenter.sh/capacity-type": "spot"}})

    assert where(mixed, "train") == "gpu"


def test_what_does_not_fit_waits_until_something_is_free(mixed):
    for name in ("first", "second"):
        mixed.start(name, pod=TOLERATE, container=gpus(3), steer={"duration": "5"})
    assert (where(mixed, "first"), where(mixed, "second")) == ("gpu", None)

    mixed.run(6)

    assert where(mixed, "second") == "gpu"


def test_the_oldest_waits_the_shortest_and_a_large_one_blocks_no_small_one(mixed):
    for name, count in (("runs", 3), ("large", 4), ("small-1", 1), ("small-2", 1)):
        mixed.start(name, pod=TOLERATE, container=gpus(count), steer={"duration": "5"})

    assert [where(mixed, name) for name in ("large", "small-1", "small-2")] == [None, "gpu", None]


def test_no_node_takes_more_pods_than_it_may():
    bench = Bench(nodes=[NodeShape(name="tiny", pods=2)])

    bench.start("train", parallelism=5, completions=5, steer={"duration": "1"})

    assert len(bench.get(PODS, fieldSelector="status.phase=Running").items) == 2
    bench.run(10)
    assert "Complete" in conditions(bench.job("train"))


def test_a_gate_holds_a_pod_until_it_is_taken_off(bench):
    body = {
        "metadata": {"name": "held", "annotations": {"simulation.gpufleet.io/exit-code": "3"}},
        "spec": {
            "restartPolicy": "Never",
            "schedulingGates": [{"name": "gpufleet.io/release"}],
            "containers": [{"name": "main", "image": "x:1"}],
        },
    }
    bench.post(PODS, body)
    bench.run(10)
    held = bench.get(f"{PODS}/held").json
    assert held["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert bench.patch(f"{PODS}/held", {"spec": {"schedulingGates": [{"name": "another"}]}}).refusal == (422, "Invalid")

    bench.patch(f"{PODS}/held", {"spec": {"schedulingGates": None}})
    bench.run(3)

    done = bench.get(f"{PODS}/held").json
    assert done["status"]["phase"] == "Failed"
    assert done["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert [(start.job_name, start.pod_name) for start in bench.cluster.started] == [("held", "held")]


def test_the_spec_of_a_pod_is_fixed(bench):
    bench.start("train")
    (pod,) = bench.pods_of("train")

    answer = bench.patch(f"{PODS}/{pod['metadata']['name']}", {"spec": {"nodeSelector": {"a": "b"}}})

    assert answer.refusal == (422, "Invalid")


def test_a_running_pod_has_a_place_and_an_address(bench):
    bench.start("train")

    (pod,) = bench.pods_of("train")

    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["hostIP"].startswith("10.0.")
    assert pod["status"]["podIP"]
    assert {"PodScheduled", "Initialized", "ContainersReady", "Ready"} <= set(conditions(pod))
    assert pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]


def test_thousands_of_waiting_pods_are_cheap():
    bench = Bench(nodes=[NodeShape(name="tiny", pods=10)])
    for number in range(300):
        bench.post(JOBS, job(f"j{number}", steer={"duration": "0.1"}))

    bench.run(60)

    assert len(bench.cluster.started) == 300
    starts = [start.job_name for start in bench.cluster.started]
    assert starts == [f"j{number}" for number in range(300)]


def test_shapes_are_read_from_text():
    shapes = parse_shapes("2xg5.12xlarge:spot, m5.large,p5.48xlarge")

    assert [(shape.name, shape.instance_type, shape.gpus, shape.capacity_type) for shape in shapes] == [
        ("node-0", "g5.12xlarge", 4, "spot"),
        ("node-1", "g5.12xlarge", 4, "spot"),
        ("node-2", "m5.large", 0, "on-demand"),
        ("node-3", "p5.48xlarge", 8, "on-demand"),
    ]
    with pytest.raises(ValueError, match=r"unknown instance type q9\.nano"):
        parse_shapes("q9.nano")

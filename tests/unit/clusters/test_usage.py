"""What nodes and pods have and ask for, as their objects say it."""

from copy import deepcopy
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from shared.clusters.usage import node_usage, pod_usage
from shared.clusters.user_labels import MOST
from shared.costs.model import CapacityType

WHERE = {"region": "us-east-1", "cluster": "gpufleet-us-east-1"}
NODE = {
    "metadata": {
        "name": "ip-10-0-0-1",
        "uid": "n1",
        "creationTimestamp": "2026-05-17T09:00:00Z",
        "labels": {"node.kubernetes.io/instance-type": "g5.12xlarge", "topology.kubernetes.io/zone": "us-east-1b"},
    },
    "status": {
        "capacity": {"cpu": "48", "memory": "195920556Ki", "nvidia.com/gpu": "4", "pods": "110"},
        "allocatable": {"cpu": "47610m", "memory": "190Gi", "nvidia.com/gpu": "3"},
    },
}
POD = {
    "metadata": {
        "name": "train-1-x",
        "namespace": "ml",
        "uid": "p1",
        "labels": {
            "gpufleet.io/managed": "true",
            "gpufleet.io/job-id": "j1",
            "gpufleet.io/execution": "2",
            "batch.kubernetes.io/controller-uid": "u1",
            "controller-uid": "u1",
            "job-name": "train",
            "team": "vision",
            "gco.io/template": "llm",
        },
        "annotations": {"gpufleet.io/submitted-by": "key:ada"},
    },
    "spec": {
        "nodeName": "ip-10-0-0-1",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1500m", "memory": "2Gi"}, "limits": {"nvidia.com/gpu": "2"}}}],
    },
    "status": {"phase": "Running", "startTime": "2026-05-17T09:05:00Z"},
}


def at(text):
    return datetime.fromisoformat(f"2026-05-17T{text}").replace(tzinfo=UTC)


def changed(document, path, value):
    found = deepcopy(document)
    at_hand = found
    *parents, last = path.split("/")
    for key in parents:
        at_hand = at_hand.setdefault(key, {})
    at_hand[last] = value
    return found


def read(pod):
    return pod_usage(pod, **WHERE)


def test_a_node_counts_with_its_capacity_which_is_what_is_paid_for():
    found = node_usage(NODE, **WHERE)
    assert (found.uid, found.name, found.start, found.end) == ("n1", "ip-10-0-0-1", at("09:00"), None)
    assert (found.cores, found.memory_bytes, found.gpus) == (48, 195920556 * 1024, 4)
    assert (found.instance_type, found.zone, found.capacity_type) == ("g5.12xlarge", "us-east-1b", CapacityType.ON_DEMAND)
    assert (found.region, found.cluster) == ("us-east-1", "gpufleet-us-east-1")


def test_a_node_that_has_just_joined_has_nothing_yet():
    found = node_usage({"metadata": {key: NODE["metadata"][key] for key in ("name", "uid", "creationTimestamp")}}, **WHERE)
    assert (found.cores, found.memory_bytes, found.gpus, found.instance_type, found.zone) == (0, 0, 0, None, None)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, CapacityType.SPOT),
        ({"eks.amazonaws.com/capacityType": "SPOT"}, CapacityType.SPOT),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, CapacityType.ON_DEMAND),
        ({"karpenter.sh/capacity-type": "reserved"}, CapacityType.ON_DEMAND),
        (
            {"karpenter.sh/capacity-type": "reserved", "karpenter.k8s.aws/capacity-reservation-type": "capacity-block"},
            CapacityType.CAPACITY_BLOCK,
        ),
        ({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, CapacityType.CAPACITY_BLOCK),
        ({}, CapacityType.ON_DEMAND),
    ],
)
def test_how_a_node_is_paid_for_is_in_its_labels(labels, expected):
    assert node_usage(changed(NODE, "metadata/labels", labels), **WHERE).capacity_type is expected


def test_a_pod_says_whose_it_is_and_what_it_asks_for():
    found = read(POD)
    assert (found.uid, found.node, found.namespace, found.start, found.end) == ("p1", "ip-10-0-0-1", "ml", at("09:05"), None)
    assert (found.job_id, found.execution, found.submitted_by) == ("j1", 2, "key:ada")
    assert (found.cores, found.memory_bytes, found.gpus) == (Decimal("1.5"), 2 * 2**30, 2)
    assert found.labels == {"team": "vision", "gco.io/template": "llm"}


def test_labels_are_bounded():
    many = {f"label-{number:03d}": "x" for number in range(100)}
    found = read(changed(POD, "metadata/labels", {**POD["metadata"]["labels"], **many}))
    assert len(found.labels) == MOST
    assert next(iter(found.labels)) == "gco.io/template"


def test_labels_of_the_job_count_below_the_pods():
    found = read(changed(POD, "metadata/annotations", {"gpufleet.io/job-labels": '{"team":"audio","cost-centre":"7"}'}))
    assert found.labels == {"team": "vision", "gco.io/template": "llm", "cost-centre": "7"}


def test_a_pod_of_others_is_told_without_labels_or_submitter():
    found = read(changed(POD, "metadata/labels", {"gpufleet.io/job-id": "j1", "app": "dns"}))
    assert (found.job_id, found.execution, found.submitted_by, found.labels) == (None, None, None, {})


@pytest.mark.parametrize("path", ["status/startTime", "spec/nodeName"])
def test_a_pod_without_a_place_uses_nothing(path):
    assert read(changed(POD, path, None)) is None


def ended(at_time):
    return {"state": {"terminated": {"exitCode": 0, "finishedAt": at_time}}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Succeeded", "containerStatuses": [ended("2026-05-17T09:20:00Z"), ended("2026-05-17T09:30:00Z")]}, "09:30"),
        ({"phase": "Failed", "initContainerStatuses": [ended("2026-05-17T09:06:00Z")], "containerStatuses": []}, "09:06"),
        ({"phase": "Running", "containerStatuses": [ended("2026-05-17T09:20:00Z")]}, None),  # another one runs
        ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 137, "finishedAt": None}}}]}, "09:05"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "09:05"),  # nothing ever ran
        ({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "lastTransitionTime": "2026-05-17T09:40:00Z"}]}, "09:40"),
    ],
)
def test_a_pod_ends_with_its_last_container(status, expected):
    found = read(changed(POD, "status", {"startTime": "2026-05-17T09:05:00Z", **status}))
    assert found.end == (at(expected) if expected else None)


def container(cpu=None, limit=None, **more):
    return {"name": "c", "resources": {"requests": {"cpu": cpu} if cpu else {}, "limits": {"cpu": limit} if limit else {}}, **more}


@pytest.mark.parametrize(
    ("spec", "cores"),
    [
        ({"containers": [container("1"), container("500m")]}, "1.5"),
        ({"containers": [container(limit="2")]}, "2"),  # a limit alone is a request, too
        ({"containers": [container("1", limit="2")]}, "1"),
        ({"containers": [container()]}, "0"),
        ({"containers": [container("1")], "initContainers": [container("3"), container("2")]}, "3"),
        ({"containers": [container("1")], "initContainers": [container("1", restartPolicy="Always")]}, "2"),
        ({"containers": [container("1")], "initContainers": [container("1", restartPolicy="Always"), container("3")]}, "4"),
        ({"containers": [container("1")], "initContainers": [container("3"), container("1", restartPolicy="Always")]}, "3"),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, "1.25"),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}}, "4"),
        ({"containers": [container("much")]}, "0"),
    ],
)
def test_what_a_pod_asks_for_is_what_the_scheduler_keeps_for_it(spec, cores):
    assert read(changed(POD, "spec", {"nodeName": "n", **spec})).cores == Decimal(cores)

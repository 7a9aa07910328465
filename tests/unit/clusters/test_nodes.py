"""The nodes of a cluster, summed up."""

from datetime import UTC, datetime

from shared.clusters.nodes import gpus_of, node_view, report
from shared.clusters.pods import PodView

AT = datetime(2026, 5, 17, 12, tzinfo=UTC)


def node(name, gpus=None, *, ready="True", labels=None, **spec):
    allocatable = {"cpu": "4", **({"nvidia.com/gpu": gpus} if gpus else {})}
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": conditions},
    }


def pod(node_name, gpus, phase="Running"):
    return PodView(namespace="ml", name="p", uid="p", job_uid="u", job_id="j", phase=phase, node=node_name, gpus=gpus)


def test_a_node_is_read_with_what_it_offers():
    seen = node_view(node("a", "4", labels={"node.kubernetes.io/instance-type": "g5.12xlarge", "eks.amazonaws.com/capacityType": "SPOT"}))
    assert (seen.name, seen.gpus_allocatable, seen.schedulable, seen.instance_type, seen.spot) == ("a", 4, True, "g5.12xlarge", True)
    assert node_view(node("b", labels={"karpenter.sh/capacity-type": "spot"})).spot
    assert not node_view(node("c")).spot


def test_a_node_that_is_cordoned_or_not_ready_takes_no_pods():
    assert not node_view(node("a", "4", unschedulable=True)).schedulable
    assert not node_view(node("a", "4", ready="Unknown")).schedulable


def test_gpus_of_all_makes_count():
    assert gpus_of({"nvidia.com/gpu": "2", "amd.com/gpu": 1, "cpu": "8"}) == 3
    assert gpus_of({"nvidia.com/gpu": "many"}) == 0
    assert gpus_of(None) == 0


def test_a_report_sums_up_what_is_there_and_what_is_used():
    nodes = [node_view(found) for found in (node("b", "4"), node("a", "8"), node("c", "1", unschedulable=True))]
    pods = [pod("a", 2), pod("a", 1), pod("c", 1), pod(None, 4, "Pending"), pod("a", 8, "Succeeded"), pod("gone", 1)]
    made = report("eu-west-1", nodes, pods, at=AT)
    assert [(one.name, one.gpus_allocatable, one.gpus_used) for one in made.nodes] == [("a", 8, 3), ("b", 4, 0), ("c", 1, 1)]
    assert (made.region, made.gpus_allocatable, made.gpus_used, made.reported_at) == ("eu-west-1", 12, 5, AT)

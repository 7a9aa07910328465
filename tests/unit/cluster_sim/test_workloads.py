import pytest

from tests.unit.cluster_sim.harness import Bench
from workers.local.cluster import Kind
from workers.local.cluster.kinds import TRAIN_JOB


@pytest.mark.parametrize(
    ("plural", "spec", "expected"),
    [
        ("deployments", {"replicas": 3}, {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3}),
        ("statefulsets", {}, {"replicas": 1, "readyReplicas": 1}),
        ("daemonsets", {}, {"desiredNumberScheduled": 2, "numberReady": 2}),
    ],
)
def test_what_serves_without_end_reports_that_it_is_ready(bench, plural, spec, expected):
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    bench.post(path, {"metadata": {"name": "serve"}, "spec": spec})

    bench.run(1)

    status = bench.get(f"{path}/serve").json["status"]
    assert expected.items() <= status.items()
    assert status["observedGeneration"] == 1


def test_a_changed_scale_is_reported(bench):
    path = "/apis/apps/v1/namespaces/default/deployments"
    bench.post(path, {"metadata": {"name": "serve"}, "spec": {"replicas": 1}})
    bench.patch(f"{path}/serve", {"spec": {"replicas": 5}})

    bench.run(1)

    status = bench.get(f"{path}/serve").json["status"]
    assert (status["readyReplicas"], status["observedGeneration"]) == (5, 2)


def test_further_kinds_are_stored_and_watched_like_any_other():
    kind = Kind(kind="PyTorchJob", plural="pytorchjobs", group="kubeflow.org", subresources=("status",))
    bench = Bench(extra_kinds=[kind])
    path = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"

    created = bench.post(
        path, {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"}, "spec": {"suspend": True}}
    )

    assert created.status == 201
    assert bench.get(path).names == ["x"]
    assert "kubeflow.org" in [group["name"] for group in bench.get("/apis").json["groups"]]


def test_the_lists_of_further_kinds_have_no_way_to_merge():
    bench = Bench(extra_kinds=[TRAIN_JOB])
    path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
    bench.post(path, {"metadata": {"name": "x"}, "spec": {"suspend": True}})

    assert bench.patch(f"{path}/x", {"spec": {}}, "application/strategic-merge-patch+json").refusal == (415, "UnsupportedMediaType")
    assert bench.patch(f"{path}/x", {"spec": {"suspend": False}}).json["metadata"]["generation"] == 2

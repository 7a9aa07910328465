"""The index of pods: what is known of a Job's pods, for as long as somebody may ask."""

from dataclasses import replace

import pytest

from shared.clusters.pods import ContainerView, PodIndex, PodView, pod_view

POD = {
    "metadata": {
        "name": "train-1-x",
        "namespace": "ml",
        "uid": "p1",
        "labels": {"gpufleet.io/job-id": "j1"},
        "ownerReferences": [{"kind": "Job", "name": "train-1", "uid": "u1", "controller": True}],
    },
    "spec": {
        "nodeName": "gpu-1",
        "initContainers": [{"name": "fetch"}],
        "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}}},
            {"name": "side", "resources": {"limits": {"amd.com/gpu": 1}}},
        ],
    },
    "status": {
        "phase": "Running",
        "initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [
            {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}},
            {"name": "main", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 1}}},
        ],
    },
}


def view(uid="p1", job="u1", **options) -> PodView:
    return PodView(**{"namespace": "ml", "name": uid, "uid": uid, "job_uid": job, "job_id": "j1", "phase": "Running", **options})


def test_a_pod_is_read_with_its_containers_in_order():
    seen = pod_view(POD)
    assert (seen.name, seen.job_uid, seen.job_id, seen.phase, seen.node) == ("train-1-x", "u1", "j1", "Running", "gpu-1")
    assert seen.containers == (
        ContainerView(name="fetch", started=True, exit_code=0),
        ContainerView(name="main", started=True),
        ContainerView(name="side", started=False),
    )
    assert seen.gpus == 3


def test_a_pod_that_has_just_been_made_is_pending():
    seen = pod_view({"metadata": POD["metadata"]})
    assert (seen.phase, seen.node, seen.gpus, seen.containers) == ("Pending", None, 0, ())


def test_init_containers_count_only_where_they_ask_for_more():
    spec = {
        "initContainers": [{"name": "fetch", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
        "containers": POD["spec"]["containers"],
    }
    assert pod_view({**POD, "spec": spec}).gpus == 8


@pytest.mark.parametrize("owners", [None, [], [{"kind": "Job", "uid": "u1"}], [{"kind": "ReplicaSet", "uid": "r", "controller": True}]])
def test_a_pod_that_no_job_controls_is_left_out(owners):
    assert pod_view({**POD, "metadata": {**POD["metadata"], "ownerReferences": owners}}) is None


@pytest.mark.parametrize("owners", [None, [{"kind": "Job", "uid": "u2", "controller": True}]], ids=["nobody", "another-job"])
def test_a_pod_that_lost_its_job_stays_that_jobs(owners):
    labels = {**POD["metadata"]["labels"], "batch.kubernetes.io/controller-uid": "u1"}
    seen = pod_view({**POD, "metadata": {**POD["metadata"], "labels": labels, "ownerReferences": owners}})
    assert (seen.job_uid, seen.job_id, seen.gpus) == ("u1", "j1", 3)


def test_pods_are_found_by_their_job():
    index = PodIndex()
    index.put(view("p1"))
    index.put(view("p2", phase="Pending"))
    index.put(view("p3", job="u2"))
    assert [pod.uid for pod in index.of("u1")] == ["p1", "p2"]
    assert index.running("u1") == 1
    assert index.of("u9") == ()
    assert {pod.uid for pod in index.all()} == {"p1", "p2", "p3"}


def test_a_change_takes_the_place_of_what_was_known():
    index = PodIndex()
    index.put(view())
    index.put(view(phase="Succeeded"))
    assert [pod.phase for pod in index.of("u1")] == ["Succeeded"]


def test_a_disruption_is_known_until_the_job_has_ended():
    index = PodIndex()
    index.put(view())
    index.remove(view(disrupted="spot"))
    assert index.of("u1") == ()
    assert index.disruption("u1") == "spot"
    index.ended("u1")
    assert index.disruption("u1") is None
    assert len(index) == 0


def test_the_pods_of_a_job_that_ended_are_known_until_they_are_gone():
    index = PodIndex()
    index.put(view())
    index.ended("u1")
    assert len(index.of("u1")) == 1
    index.remove(view())
    assert len(index) == 0


def test_nothing_is_kept_of_pods_that_went_undisturbed():
    index = PodIndex()
    index.put(view())
    index.remove(view())
    index.remove(view())
    assert len(index) == 0


def test_what_is_not_on_a_fresh_list_is_gone():
    index = PodIndex()
    for uid in ("p1", "p2"):
        index.put(view(uid))
    index.put(view("p3", job="u2", disrupted="spot"))
    index.replace([replace(view("p2"), phase="Failed"), view("p4")])
    assert [(pod.uid, pod.phase) for pod in index.of("u1")] == [("p2", "Failed"), ("p4", "Running")]
    assert index.disruption("u2") == "spot"
    index.retain(["u1"])
    assert index.disruption("u2") is None
    index.ended("unknown")

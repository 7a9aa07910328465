"""Which labels of a Job and its pods are their user's, and how the Job's reach the pods without being labels of theirs."""

import json

import pytest

from shared.clusters.user_labels import MOST, carried, labels_of
from shared.policy.metadata import MAX_ANNOTATION_BYTES
from tests.unit.policy_examples import a_job
from tests.unit.test_rendering import rendered

KUBERNETES_ALLOWS = 256 * 1024
"""Bytes of all annotations of an object: apimachinery `api/validation/objectmeta.go`, TotalAnnotationSizeLimitB."""


def labelled(of_job, pods=None, **options):
    """The metadata of the pods of a Job with labels of its own, as they are created."""
    job = a_job()
    job["metadata"]["labels"] = of_job
    job["spec"]["template"]["metadata"] = {"labels": pods or {}}
    return rendered(job, **options)["spec"]["template"]["metadata"]


def test_a_label_that_stands_on_the_job_alone_counts_and_is_no_label_of_the_pods():
    pods = labelled({"team": "vision"})
    assert labels_of(pods) == {"team": "vision"}
    assert "team" not in pods["labels"]


def test_the_pods_own_and_the_submissions_labels_are_above_the_jobs():
    pods = labelled({"team": "job", "owner": "job", "tier": "job"}, {"team": "pod"}, labels={"owner": "submission"})
    assert labels_of(pods) == {"team": "pod", "owner": "submission", "tier": "job"}


def test_a_job_without_labels_of_its_own_carries_nothing():
    assert "gpufleet.io/job-labels" not in labelled({}, {"team": "pod"})["annotations"]
    assert "gpufleet.io/job-labels" not in labelled({"team": "job"}, {"team": "pod"})["annotations"]


@pytest.mark.parametrize(
    "key",
    [
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/job-completion-index",
        "controller-revision-hash",
        "controller-uid",
        "eks.amazonaws.com/fargate-profile",
        "gpufleet.io/managed",
        "job-name",
        "kueue.x-k8s.io/podset",
        "kueue.x-k8s.io/queue-name",
        "pod-template-hash",
        "topology.kubernetes.io/zone",
    ],
)
def test_what_clusters_and_the_fleet_write_is_nobodys_label(key):
    assert carried({key: "x"}, {}) is None
    assert labels_of({"labels": {key: "x"}, "annotations": {"gpufleet.io/job-labels": json.dumps({key: "x"})}}) == {}


@pytest.mark.parametrize("key", ["app.kubernetes.io/name", "job-name-of-mine", "example.com/team", "mykubernetes.io/team"])
def test_all_else_is_a_users(key):
    assert labels_of({"annotations": {"gpufleet.io/job-labels": carried({key: "x"}, {})}}) == {key: "x"}
    assert labels_of({"labels": {key: "x"}}) == {key: "x"}


def test_of_too_many_the_pods_own_stay_as_they_were_before_the_jobs_counted():
    own = {f"pod-{number:02d}": "x" for number in range(MOST - 1)}
    found = labels_of(labelled({f"job-{number:02d}": "y" for number in range(100)}, own))
    assert found == {**own, "job-00": "y"}


def test_the_longest_labels_and_annotations_that_are_admitted_are_taken_by_a_cluster():
    longest = {f"{'a' * 61}.{'b' * 63}.{'c' * 63}.{'d' * 62}/{number:063d}": "v" * 63 for number in range(100)}
    job = a_job()
    job["metadata"]["labels"] = longest
    job["spec"]["template"]["metadata"] = {"annotations": {"note": "n" * (MAX_ANNOTATION_BYTES - len("note"))}}
    found = rendered(job, submitted_by=f"arn:{'r' * 2048}")["spec"]["template"]["metadata"]["annotations"]
    assert len(json.loads(found["gpufleet.io/job-labels"])) == MOST
    assert sum(len(key.encode()) + len(value.encode()) for key, value in found.items()) <= KUBERNETES_ALLOWS


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "null", "7", '{"team": 7}', '{"team": "not a label"}', '{"no key!": "x"}'])
def test_an_annotation_that_somebody_has_changed_says_nothing(text):
    assert labels_of({"labels": {"a": "b"}, "annotations": {"gpufleet.io/job-labels": text}}) == {"a": "b"}

"""What a Job says is read as it is meant: the end by its conditions, ours by its marks."""

import copy
from datetime import UTC, datetime

import pytest

from shared.clusters.observed import disruption, moment, observed, owner_of

JOB = {
    "metadata": {
        "name": "train-1",
        "namespace": "ml",
        "uid": "u1",
        "resourceVersion": "12",
        "creationTimestamp": "2026-05-17T12:00:00Z",
        "labels": {"gpufleet.io/managed": "true"},
        "annotations": {
            "gpufleet.io/job-id": "j1",
            "gpufleet.io/execution": "2",
            "gpufleet.io/spec-hash": "abc",
            "gpufleet.io/released": "no",
        },
    },
    "spec": {"suspend": True},
}


def job(*, status=None, metadata=None, **spec):
    made = copy.deepcopy(JOB)
    made["metadata"] |= metadata or {}
    made["spec"] |= spec
    if status is not None:
        made["status"] = status
    return made


def condition(kind, status="True", **more):
    return {"type": kind, "status": status, "lastTransitionTime": "2026-05-17T13:00:00Z", **more}


def test_a_fresh_object_is_suspended_and_not_released():
    seen = observed(JOB)
    assert (seen.name, seen.namespace, seen.uid, seen.resource_version) == ("train-1", "ml", "u1", "12")
    assert (seen.job_id, seen.execution, seen.spec_hash, seen.released) == ("j1", 2, "abc", "no")
    assert seen.suspended
    assert (seen.is_released, seen.deleting, seen.complete, seen.failed_reason, seen.ready) == (False, False, False, None, 0)
    assert seen.created_at == datetime(2026, 5, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": None},
        {"labels": {"gpufleet.io/managed": "false"}},
        {"annotations": None},
        {"annotations": {"gpufleet.io/job-id": "j1"}},
        {"annotations": {"gpufleet.io/job-id": "j1", "gpufleet.io/execution": "two"}},
        {"annotations": {"gpufleet.io/execution": "2"}},
    ],
)
def test_an_object_without_our_marks_is_not_ours(metadata):
    assert observed(job(metadata=metadata)) is None


def test_an_end_in_success_has_its_times():
    seen = observed(
        job(
            status={
                "startTime": "2026-05-17T12:30:00Z",
                "completionTime": "2026-05-17T12:59:59Z",
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            }
        )
    )
    assert seen.complete
    assert seen.started_at == datetime(2026, 5, 17, 12, 30, tzinfo=UTC)
    assert seen.finished_at == datetime(2026, 5, 17, 12, 59, 59, tzinfo=UTC)


def test_a_failure_has_reason_message_and_the_time_of_its_condition():
    failed = condition("Failed", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit")
    seen = observed(job(status={"conditions": [failed]}))
    assert (seen.failed_reason, seen.failed_message) == ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert seen.finished_at == datetime(2026, 5, 17, 13, tzinfo=UTC)


@pytest.mark.parametrize("found", [condition("FailureTarget", reason="PodFailurePolicy"), condition("Failed", status="False")])
def test_what_only_leads_to_a_failure_is_none_yet(found):
    seen = observed(job(status={"failed": 1, "conditions": [found]}))
    assert seen.failed_reason is None
    assert seen.finished_at is None


def test_a_job_that_runs_counts_the_pods_that_are_ready():
    seen = observed(job(status={"active": 3, "ready": 2}, suspend=False))
    assert (seen.ready, seen.suspended) == (2, False)


def test_a_deletion_that_has_begun_shows():
    assert observed(job(metadata={"deletionTimestamp": "2026-05-17T13:00:00Z"})).deleting


def test_times_may_have_fractions_of_any_length():
    assert moment("2026-05-17T12:00:00.123456789Z") == datetime(2026, 5, 17, 12, 0, 0, 123456, tzinfo=UTC)
    assert moment(None) is None


def test_a_disruption_is_told_with_reason_and_message():
    target = condition("DisruptionTarget", reason="PreemptionByScheduler", message="preempting to accommodate a higher priority pod")
    assert disruption({"status": {"conditions": [target]}}) == "PreemptionByScheduler: preempting to accommodate a higher priority pod"
    assert disruption({"status": {"conditions": [condition("DisruptionTarget")]}}) == "DisruptionTarget"
    assert disruption({"status": {"conditions": [condition("DisruptionTarget", status="False")]}}) is None
    assert disruption({}) is None


@pytest.mark.parametrize(
    ("metadata", "owner"),
    [
        ({"annotations": {"gpufleet.io/job-id": "j9", "gpufleet.io/execution": "1"}}, "job j9, execution 1, of a fleet like this one"),
        ({"ownerReferences": [{"kind": "CronJob", "name": "nightly"}]}, "CronJob nightly"),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, "Helm"),
        (
            {"managedFields": [{"manager": "kube-controller-manager", "subresource": "status"}, {"manager": "kubectl-create"}]},
            "kubectl-create",
        ),
        ({}, "unknown"),
    ],
)
def test_the_owner_of_a_stranger_is_guessed_by_what_it_carries(metadata, owner):
    assert owner_of({"metadata": metadata}) == owner

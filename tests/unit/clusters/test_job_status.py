"""One word for a Job: its end by the conditions alone, and running only while a pod runs."""

import pytest

from shared.clusters.job_status import computed_status, finished


def job(*conditions, suspend=False, **status):
    told = [{"type": kind, "status": "True"} for kind in conditions]
    return {"spec": {"suspend": suspend}, "status": {"conditions": told, **status}}


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ({}, "pending"),
        ({"spec": None, "status": None}, "pending"),
        (job(), "pending"),
        (job(active=2, ready=0), "pending"),
        (job(active=2, ready=1), "running"),
        (job(active=2), "running"),
        (job(active=2, ready=None), "running"),
        (job("Suspended", suspend=True, active=1, ready=1), "pending"),
        (job("FailureTarget", active=0, ready=0, terminating=2), "running"),
        (job("SuccessCriteriaMet", succeeded=1), "running"),
        (job("SuccessCriteriaMet", "Complete", succeeded=1), "succeeded"),
        (job("FailureTarget", "Failed", failed=1), "failed"),
        (job("Failed", suspend=True), "failed"),
        ({"status": {"conditions": [{"type": "Failed", "status": "False"}]}}, "pending"),
    ],
)
def test_the_word_follows_from_conditions_and_running_pods(document, word):
    assert computed_status(document) == word


def test_a_failed_pod_inside_its_backoff_limit_is_no_failure():
    assert computed_status(job(failed=1, active=0, ready=0)) == "pending"
    assert computed_status(job(failed=1, active=1, ready=1)) == "running"
    assert not finished(job(failed=1, active=0, ready=0))


@pytest.mark.parametrize(("kind", "ended"), [("Complete", True), ("Failed", True), ("FailureTarget", False), ("SuccessCriteriaMet", False)])
def test_only_two_conditions_end_a_job(kind, ended):
    assert finished(job(kind)) is ended

"""What is told of an event, and that it is told of that event and of nothing later."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.jobs import transitions
from shared.jobs.change import Moment
from shared.jobs.model import Claim, ClusterObject, EventType, Execution, Head, PodCounts, RetryPolicy, Spent, current_execution
from shared.jobs.states import State
from shared.webhooks.events import LAST, TOLD
from shared.webhooks.model import EVENTS
from shared.webhooks.payloads import message

NOW = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
JOB = "018f5b7e-0000-7000-8000-000000000001"


def at(seconds):
    return Moment(now=NOW + timedelta(seconds=seconds), stamp="0" * 16)


def queued(**fields):
    return Head(
        **{
            "id": JOB,
            "name": "train",
            "namespace": "ns",
            "region": "eu-west-1",
            "state": State.QUEUED,
            "priority": 0,
            "revision": 1,
            "fence": 0,
            "stamp": "0" * 16,
            "spec_version": 1,
            "spec_hash": "h",
            "gpus": 1,
            "submitted_at": NOW,
            "updated_at": NOW,
            "labels": {"team": "vision"},
            "submitted_by": "ada",
        }
        | fields
    )


def run(head, uid, second):
    """Claimed, committed, running."""
    claim = Claim(owner="d", nonce="n", claimed_at=at(second).now, expires_at=at(second + 60).now)
    claimed = head.model_copy(update={"state": State.CLAIMED, "claim": claim})
    pending = transitions.committed(claimed, ClusterObject(name=f"o-{uid}", uid=uid), at(second)).after
    return transitions.running(pending, None, at(second + 1)).counting(PodCounts(active=2))


def document(head, event, execution):
    return json.loads(message(head, event, execution, cluster="gpufleet-eu-west-1").body)


def test_a_running_job():
    change = run(queued(), "u1", 10)
    told = document(change.after, change.events[0], current_execution(change.after))

    assert told == {
        "id": f"{JOB}#4",
        "event": "job.started",
        "timestamp": "2026-01-02T03:04:16.600000Z",
        "cluster_id": "gpufleet-eu-west-1",
        "region": "eu-west-1",
        "job_id": JOB,
        "execution": 1,
        "reason": None,
        "message": None,
        "submitted_by": "ada",
        "cost": {"usd": None, "known_usd": "0", "missing": "the event does not tell it"},
        "job": {
            "name": "train",
            "namespace": "ns",
            "uid": "u1",
            "labels": {"team": "vision"},
            "status": "running",
            "start_time": "2026-01-02T03:04:16.600000Z",
            "completion_time": None,
            "active": 2,
            "succeeded": 0,
            "failed": 0,
        },
    }


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (Spent(known_usd=Decimal("1.25")), {"usd": "1.25", "known_usd": "1.25", "missing": None}),
        (Spent(known_usd=Decimal("2E-9")), {"usd": "0.000000002", "known_usd": "0.000000002", "missing": None}),
        (Spent(known_usd=Decimal(1), missing="no price"), {"usd": None, "known_usd": "1", "missing": "no price"}),
    ],
    ids=["known", "tiny", "a-part"],
)
def test_an_event_tells_what_the_job_had_cost_by_then(cost, told):
    change = transitions.succeeded(run(queued(), "u1", 10).after, None, at(60)).charging(cost)

    assert document(change.after, change.events[0], change.ended)["cost"] == told


def test_a_job_that_has_just_been_submitted_has_cost_nothing():
    change = transitions.submitted(queued())

    assert document(change.after, change.events[0], None)["cost"] == {"usd": "0", "known_usd": "0", "missing": None}


def test_an_event_that_is_told_late_is_told_as_it_was():
    started = run(queued(retry=RetryPolicy(max_attempts=2)), "u1", 10)
    early = document(started.after, started.events[0], current_execution(started.after))

    failed = transitions.attempt_failed(started.after, "Failed", "exit code 1", at(20))
    assert failed.ended is not None
    ready = transitions.ready(failed.after, "over", at(30)).after
    again = run(ready, "u2", 40)
    done = transitions.succeeded(again.after, None, at(60))

    assert document(done.after, started.events[0], failed.ended) == early


def test_a_failed_attempt_that_is_tried_again_is_queued_and_not_failed():
    started = run(queued(retry=RetryPolicy(max_attempts=2)), "u1", 10)
    change = transitions.attempt_failed(started.after, "Failed", "exit code 1", at(20))
    told = document(change.after, change.events[0], change.ended)

    assert (told["event"], told["execution"], told["reason"]) == ("job.queued", 2, "Failed")
    assert (told["job"]["status"], told["job"]["uid"], told["job"]["start_time"]) == ("queued", None, None)


def test_an_interruption_is_told_of_the_execution_that_lost_its_machine():
    started = run(queued(), "u1", 10)
    change = transitions.interrupted(started.after, "TerminationByKubelet", at(20))
    told = document(change.after, change.events[0], change.ended)

    assert (told["event"], told["execution"], told["message"]) == ("job.interrupted", 1, "TerminationByKubelet")
    assert (told["job"]["uid"], told["job"]["completion_time"]) == ("u1", None)


@pytest.mark.parametrize(
    ("end", "event", "status"),
    [
        (lambda head: transitions.succeeded(head, NOW + timedelta(seconds=50), at(60)), "job.completed", "succeeded"),
        (lambda head: transitions.failed(head, "BackoffLimitExceeded", "no", at(60)), "job.failed", "failed"),
    ],
)
def test_ends_have_both_times(end, event, status):
    change = end(run(queued(), "u1", 10).after)
    told = document(change.after, change.events[0], current_execution(change.after))

    assert (told["event"], told["job"]["status"]) == (event, status)
    assert told["job"]["start_time"] == "2026-01-02T03:04:16.600000Z"
    assert told["job"]["completion_time"] == ("2026-01-02T03:04:55.600000Z" if status == "succeeded" else "2026-01-02T03:05:05.600000Z")


def test_a_job_that_never_ran_has_no_execution_to_tell_of():
    from shared.jobs.model import StopIntent

    change = transitions.stop_requested(queued(), StopIntent.CANCEL, "not needed", "bob", at(5))
    told = document(change.after, change.events[0], None)

    assert (told["event"], told["reason"], told["job"]["uid"], told["job"]["start_time"]) == ("job.cancelled", "not needed", None, None)
    assert told["job"]["completion_time"] == told["timestamp"]


def test_every_event_of_a_webhook_has_a_source_and_no_setback_is_told_as_an_end():
    assert set(TOLD.values()) == set(EVENTS)
    assert {kind for kind, event in TOLD.items() if event in LAST} == {EventType.SUCCEEDED, EventType.FAILED, EventType.CANCELLED}
    assert set(EVENTS) > LAST


def test_the_body_is_the_same_bytes_at_every_attempt():
    change = run(queued(labels={"b": "1", "a": "ü"}), "u1", 10)
    execution = Execution.model_validate_json(current_execution(change.after).model_dump_json())
    event = type(change.events[0]).model_validate_json(change.events[0].model_dump_json())

    assert message(change.after, event, execution, cluster="c") == message(change.after, change.events[0], execution, cluster="c")
    assert "ü".encode() in message(change.after, event, execution, cluster="c").body

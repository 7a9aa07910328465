from datetime import timedelta

import pytest

from shared.jobs import transitions
from shared.jobs.model import ClusterObject, EventType, RetryPolicy, Spot, StopIntent, Timeouts, WaitKind
from shared.jobs.states import IllegalTransitionError, State
from tests.unit.jobs.builders import NOW, at, claimed, pending, queued, running


def test_a_commit_tells_of_the_claim_and_of_itself_in_two_numbered_events():
    change = transitions.committed(claimed(), ClusterObject(name="n", uid="u"), at(5))

    assert [(event.number, event.type, event.at) for event in change.events] == [
        (2, EventType.CLAIMED, NOW),
        (3, EventType.COMMITTED, NOW + timedelta(seconds=5)),
    ]
    assert change.after.revision == 3
    assert change.after.state is State.PENDING
    assert change.after.object == ClusterObject(name="n", uid="u")


def test_a_job_that_is_not_claimed_cannot_be_committed():
    with pytest.raises(IllegalTransitionError):
        transitions.committed(running(), ClusterObject(name="n", uid="u"), at())


def test_a_failed_attempt_leads_back_to_the_queue_with_the_next_execution():
    head = running(retry=RetryPolicy(max_attempts=3, backoff_seconds=10))

    change = transitions.attempt_failed(head, "BackoffLimitExceeded", "exit 1", at(60, jitter=0.999999))

    assert change.after.state is State.QUEUED
    assert (change.after.execution, change.after.attempts, change.after.interruptions) == (2, 1, 0)
    assert change.after.object is None
    assert change.after.claim is None
    assert change.after.wait.kind is WaitKind.RETRY
    assert change.after.wait.until - NOW == pytest.approx(timedelta(seconds=70), abs=timedelta(seconds=1))
    assert change.ended.number == 1
    assert change.ended.state is State.FAILED
    assert change.ended.object.uid == "uid-1"


def test_the_last_attempt_ends_the_job():
    head = running(retry=RetryPolicy(max_attempts=3), attempts=2)

    change = transitions.attempt_failed(head, "BackoffLimitExceeded", "exit 1", at())

    assert change.after.state is State.FAILED
    assert change.after.attempts == 3
    assert change.after.reason == "BackoffLimitExceeded"
    assert change.events[0].type is EventType.FAILED


def test_an_interruption_uses_up_no_attempt_and_waits_for_nothing():
    change = transitions.interrupted(running(attempts=0), "spot", at())

    assert change.after.state is State.QUEUED
    assert (change.after.execution, change.after.attempts, change.after.interruptions) == (2, 0, 1)
    assert change.after.wait is None


def test_a_job_on_spot_waits_for_the_price_again_after_an_interruption():
    spot = Spot(max_price="1.5", instance_type="g5.xlarge")
    assert transitions.interrupted(running(spot=spot), "spot", at()).after.wait.kind is WaitKind.SPOT


def test_interruptions_are_bounded():
    head = running(retry=RetryPolicy(max_interruptions=2), interruptions=2)

    change = transitions.interrupted(head, "spot", at())

    assert change.after.state is State.FAILED
    assert change.after.reason == "interrupted too often"


def test_cancelling_a_queued_job_ends_it_at_once():
    change = transitions.stop_requested(queued(), StopIntent.CANCEL, "no need", "me", at())

    assert change.after.state is State.CANCELLED
    assert change.after.finished_at == NOW
    assert change.events[0].by == "me"


@pytest.mark.parametrize("head", [claimed(), pending(), running()])
def test_cancelling_any_other_job_marks_it_and_keeps_its_state(head):
    change = transitions.stop_requested(head, StopIntent.CANCEL, "no need", "me", at())

    assert change.after.state is head.state
    assert change.after.stop.intent is StopIntent.CANCEL
    assert change.after.revision == head.revision + 1


def test_a_cancel_outranks_another_stop_and_is_not_asked_for_twice():
    interrupted = transitions.stop_requested(running(), StopIntent.INTERRUPTION, "spot", None, at()).after
    cancelled = transitions.stop_requested(interrupted, StopIntent.CANCEL, "no need", "me", at()).after

    assert cancelled.stop.intent is StopIntent.CANCEL
    assert transitions.stop_requested(cancelled, StopIntent.CANCEL, "again", "me", at()) is None
    assert transitions.stop_requested(cancelled, StopIntent.TOTAL_TIMEOUT, "late", None, at()) is None


@pytest.mark.parametrize(
    ("intent", "state"),
    [
        (StopIntent.CANCEL, State.CANCELLED),
        (StopIntent.TOTAL_TIMEOUT, State.FAILED),
        (StopIntent.REFUSAL, State.FAILED),
        (StopIntent.EXECUTION_TIMEOUT, State.FAILED),
        (StopIntent.INTERRUPTION, State.QUEUED),
    ],
)
def test_a_confirmed_stop_leads_to_what_it_was_meant_for(intent, state):
    marked = transitions.stop_requested(running(), intent, "because", None, at()).after

    assert transitions.stopped(marked, at()).after.state is state


def test_an_execution_timeout_is_a_failed_attempt():
    head = running(retry=RetryPolicy(max_attempts=2), timeouts=Timeouts(execution_seconds=5))
    marked = transitions.stop_requested(head, StopIntent.EXECUTION_TIMEOUT, "too long", None, at()).after

    after = transitions.stopped(marked, at()).after

    assert after.state is State.QUEUED
    assert after.attempts == 1
    assert after.stop is None


def test_a_claim_is_given_back_with_a_longer_wait_each_time_the_cluster_refuses():
    first = transitions.claim_returned(claimed(), "503", at(), cluster_refused=True).after
    again = claimed(apply_failures=3)
    fourth = transitions.claim_returned(again, "503", at(), cluster_refused=True).after

    assert first.wait.kind is WaitKind.CLUSTER
    assert fourth.wait.until > first.wait.until
    assert first.execution == 1
    assert first.attempts == 0


def test_a_cluster_that_never_accepts_anything_fails_the_job_in_the_end():
    change = transitions.claim_returned(claimed(apply_failures=19), "503", at(), cluster_refused=True)

    assert change.after.state is State.FAILED
    assert change.after.reason == "cluster unavailable"


def test_a_shutdown_gives_the_claim_back_without_any_wait():
    after = transitions.claim_returned(claimed(), "shutting down", at(), cluster_refused=False).after

    assert after.state is State.QUEUED
    assert after.wait is None
    assert after.apply_failures == 0


def test_ringing_again_tells_no_event_and_backs_off():
    first = transitions.rung(queued(), at())
    later = transitions.rung(queued(rings=20), at())

    assert first.events == ()
    assert first.after.revision == queued().revision
    assert first.after.ring_at < later.after.ring_at <= NOW + timedelta(hours=1)


def test_the_head_says_why_a_job_is_where_it_is_and_no_longer_than_that():
    waiting = transitions.unschedulable(pending(), "0/3 nodes are available", at()).after
    after = transitions.running(waiting, None, at()).after

    assert (waiting.state, waiting.reason, waiting.message) == (State.PENDING, "unschedulable", "0/3 nodes are available")
    assert (after.reason, after.message) == (None, None)


def test_no_job_ends_before_it_started():
    """Clusters tell times in whole seconds, and our own start is told in microseconds."""
    start = NOW + timedelta(seconds=5, microseconds=300_000)

    after = transitions.succeeded(running(started_at=start), NOW + timedelta(seconds=5), at(6)).after

    assert after.finished_at == start


def test_a_message_stays_short_enough_for_a_head():
    after = transitions.failed(running(), "refused", "x" * 5000, at()).after

    assert len(after.message) == 1000


def test_the_back_off_of_a_job_on_spot_ends_in_another_look_at_the_price():
    spot = Spot(max_price="1.5", instance_type="g5.xlarge")
    waiting = transitions.attempt_failed(running(spot=spot, retry=RetryPolicy(max_attempts=2)), "exit 1", None, at()).after
    plain = transitions.attempt_failed(running(retry=RetryPolicy(max_attempts=2)), "exit 1", None, at()).after

    assert waiting.wait.kind is WaitKind.RETRY
    assert transitions.wait_over(waiting, at(10)).after.wait.kind is WaitKind.SPOT
    assert transitions.wait_over(plain, at(10)).after.wait is None

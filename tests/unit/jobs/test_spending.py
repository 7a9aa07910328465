"""What a job has cost travels with its events; what isn't known is said, and never told as nothing."""

from __future__ import annotations

from decimal import Decimal

import pytest

from shared.jobs import transitions
from shared.jobs.model import EventType, RetryPolicy, Spent, Stop, StopIntent
from shared.jobs.spending import so_far, spent_before, unknown
from tests.unit.jobs.builders import NOW, at, claimed, pending, queued, running

ONE = Spent(known_usd=Decimal("1.25"))
TWICE = RetryPolicy(max_attempts=3)


def stopping(intent):
    return running(stop=Stop(intent=intent, reason="r", requested_at=NOW))


def test_an_end_tells_what_all_executions_have_cost():
    first = transitions.attempt_failed(running(retry=TWICE), "Failed", None, at()).charging(ONE)
    assert (first.events[0].type, first.events[0].cost, first.ended.cost, first.after.spent) == (EventType.RETRY, ONE, ONE, ONE)

    again = running(retry=TWICE, execution=2, spent=first.after.spent)
    started = transitions.running(pending(execution=2, spent=ONE), None, at()).charging(Spent(known_usd=Decimal("0.5")))
    assert started.events[0].cost.usd == Decimal("1.75")
    assert started.after.spent == ONE  # until the execution has ended

    last = transitions.succeeded(again, None, at()).charging(ONE)
    assert (last.events[0].cost.usd, last.after.spent.usd, last.ended.cost) == (Decimal("2.50"), Decimal("2.50"), ONE)
    assert so_far(last.after).usd == Decimal("2.50")


@pytest.mark.parametrize(
    "change",
    [
        lambda: transitions.stopped(stopping(StopIntent.CANCEL), at()),
        lambda: transitions.stopped(stopping(StopIntent.INTERRUPTION), at()),
        lambda: transitions.stopped(stopping(StopIntent.TOTAL_TIMEOUT), at()),
        lambda: transitions.attempt_failed(running(), "Failed", None, at()),
    ],
    ids=["cancelled", "interrupted", "timeout", "failed"],
)
def test_who_does_not_know_what_an_execution_has_cost_says_so(change):
    made = change()

    assert made.events[0].cost == made.after.spent == unknown("what execution 1 used was not known when it ended")
    assert (made.after.spent.usd, made.after.spent.known_usd) == (None, 0)


def test_what_is_missing_once_stays_missing_and_what_is_known_is_told():
    together = Spent(known_usd=Decimal(1), missing="the first") + ONE + unknown("the second")

    assert together == Spent(known_usd=Decimal("2.25"), missing="the first")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda: transitions.stop_requested(queued(), StopIntent.CANCEL, "r", None, at()), EventType.CANCELLED),
        (lambda: transitions.stop_requested(queued(), StopIntent.QUEUE_TIMEOUT, "r", None, at()), EventType.FAILED),
        (
            lambda: transitions.stopped(claimed(stop=Stop(intent=StopIntent.CANCEL, reason="r", requested_at=NOW)), at()),
            EventType.CANCELLED,
        ),
        (lambda: transitions.not_started(pending(), "gone", at()), EventType.NOT_STARTED),
    ],
    ids=["cancelled-in-the-queue", "never-claimed", "cancelled-before-its-commit", "never-released"],
)
def test_what_never_had_a_pod_has_cost_nothing(change, kind):
    made = change()

    assert (made.events[0].type, made.events[0].cost.usd) == (kind, 0)
    assert so_far(made.after).usd == 0


def test_a_job_in_the_queue_has_cost_what_its_ended_executions_have():
    assert so_far(queued()).usd == 0
    assert so_far(queued(execution=2, spent=ONE)).usd == Decimal("1.25")


def test_one_that_is_on_a_cluster_has_cost_more_than_is_known():
    found = so_far(running(execution=2, spent=ONE))

    assert (found.usd, found.known_usd, found.missing) == (None, Decimal("1.25"), "execution 2 has not ended")


def test_a_head_of_an_earlier_release_does_not_know_what_its_earlier_executions_have_cost():
    assert spent_before(queued()).usd == 0
    assert spent_before(queued(execution=2)).missing == "what earlier executions have cost was not kept"
    made = transitions.succeeded(running(execution=2), None, at()).charging(ONE)
    assert (made.events[0].cost.usd, made.events[0].cost.known_usd) == (None, Decimal("1.25"))


@pytest.mark.parametrize(("usd", "text"), [("1.2E-8", "0.000000012"), ("0", "0"), ("12.500000000", "12.500000000")])
def test_money_is_written_without_an_exponent(usd, text):
    spent = Spent(known_usd=Decimal(usd))

    assert spent.model_dump(mode="json")["known_usd"] == text
    assert Spent.model_validate_json(spent.model_dump_json()) == spent


def test_a_reason_is_short():
    assert len(unknown("x" * 1000).missing) == 200

"""When an endpoint is spared, and when it is disabled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shared.jobs.change import Moment
from shared.webhooks import endpoints as changes
from shared.webhooks.endpoints import DISABLE_FAILURES, FIRST_PAUSE, KEPT_HISTORY, LAST_PAUSE, STRIKES, TRIAL, EndpointHealth, limit
from shared.webhooks.ports import Answer, Failure

NOW = datetime(2026, 1, 2, tzinfo=UTC)
NEW = EndpointHealth(webhook_id="w1")
BROKEN = Answer(status=500)
SILENT = Answer(failure=Failure.TIMEOUT, text="no answer in time")
REFUSED = Answer(status=404)
HOUR = timedelta(hours=1)


def at(after=timedelta(), jitter=1.0):
    return Moment(now=NOW + after, stamp="s", jitter=jitter)


def after(*answers, health=NEW, every=timedelta()):
    for number, answer in enumerate(answers):
        change = changes.succeeded(health, at(every * number)) if changes.is_success(answer) else None
        health = change or changes.failed(health, answer, at(every * number))
    return health


def test_one_that_fails_now_and_then_is_not_spared():
    assert after(*[BROKEN] * (STRIKES - 1)).paused_until is None
    assert after(*[BROKEN] * (STRIKES - 1), Answer(status=204), *[BROKEN] * (STRIKES - 1)).paused_until is None


@pytest.mark.parametrize("answer", [BROKEN, SILENT, Answer(status=429), Answer(status=503), Answer(failure=Failure.UNRESOLVED)])
def test_one_that_is_broken_silent_or_overloaded_is_spared(answer):
    assert after(*[answer] * STRIKES).paused_until == NOW + timedelta(seconds=5)


@pytest.mark.parametrize("answer", [REFUSED, Answer(status=401), Answer(status=302)])
def test_one_that_says_no_is_not_spared_and_has_failed_all_the_same(answer):
    health = after(*[answer] * 50)

    assert (health.paused_until, health.strikes, health.failures, health.failing_since) == (None, 0, 50, NOW)


def test_what_fails_within_a_pause_begins_it_anew_and_makes_it_no_longer():
    health = after(*[SILENT] * STRIKES)

    late = after(SILENT, SILENT, SILENT, health=health, every=timedelta(seconds=1))
    assert (late.paused_until, late.pauses, late.failures) == (health.paused_until + timedelta(seconds=2), 1, STRIKES + 3)
    assert changes.failed(late, SILENT, at(jitter=0.0)).paused_until == late.paused_until  # a shorter one would end it sooner


def test_a_delivery_that_has_failed_before_waits_for_no_pause_but_for_one_that_was_asked_for():
    health = after(*[BROKEN] * STRIKES)
    assert changes.spared_until(health, NOW, tried=False) == health.paused_until
    assert changes.spared_until(health, NOW, tried=True) is None

    asked = after(Answer(status=429, retry_after="120"), health=health)
    assert [changes.spared_until(asked, NOW, tried=tried) for tried in (False, True)] == [NOW + timedelta(minutes=2)] * 2
    assert changes.spared_until(changes.disabled(health, at(), reason="", by=None), NOW, tried=True) == NOW + FIRST_PAUSE


def test_an_answer_that_says_no_ends_the_pause():
    health = after(*[BROKEN] * STRIKES, Answer(status=429, retry_after="120"), REFUSED)

    assert (health.paused_until, health.asked_until, health.strikes, health.pauses) == (None, None, 0, 0)
    assert health.failures == STRIKES + 2


def test_a_trial_that_was_asked_for_and_fails_once_begins_no_pause():
    asked = after(Answer(status=429, retry_after="120"))
    health = changes.failed(changes.tried(asked, at(HOUR)), BROKEN, at(HOUR))

    assert (health.paused_until, health.strikes, health.on_trial) == (None, 2, False)


def test_it_is_known_that_deliveries_may_wait_until_they_are_found_no_more():
    assert after(*[BROKEN] * (STRIKES - 1)).spared_at is None
    health = after(*[BROKEN] * STRIKES, Answer(status=200))

    assert health.spared_at == NOW
    assert changes.drained(health, at(HOUR)).spared_at is None


def test_each_trial_that_fails_doubles_the_pause_to_a_bound():
    health, now, pauses = after(*[SILENT] * STRIKES), timedelta(), []
    for _ in range(10):
        now = health.paused_until - NOW
        trial = changes.tried(health, at(now))
        assert trial.paused_until == NOW + now + TRIAL
        health = changes.failed(trial, SILENT, at(now))
        pauses.append((health.paused_until - NOW - now).total_seconds())

    assert pauses == [10, 20, 40, 80, 160, *[LAST_PAUSE.total_seconds()] * 5]


def test_a_trial_that_succeeds_ends_it():
    trial = changes.tried(after(*[SILENT] * 9), at(HOUR))
    health = changes.succeeded(trial, at(HOUR))

    assert health == NEW.model_copy(
        update={
            "stamp": "s",
            "spared_at": NOW + HOUR,
            "last_success_at": NOW + HOUR,
            "last_failure_at": NOW,
            "last_failure": "timeout: no answer in time",
        }
    )


def test_pauses_are_spread():
    health = after(*[SILENT] * (STRIKES - 1))

    assert changes.failed(health, SILENT, at(jitter=0.0)).paused_until == NOW + timedelta(seconds=2.5)


def test_an_endpoint_that_asks_for_time_gets_it():
    busy = Answer(status=429, retry_after="120")

    assert after(busy).paused_until == NOW + timedelta(minutes=2)
    assert after(Answer(status=503, retry_after="999999")).paused_until == NOW + HOUR
    assert after(Answer(status=404, retry_after="120")).paused_until is None


def test_a_day_of_nothing_but_failures_is_the_limit():
    health = after(*[BROKEN] * 25, every=HOUR)
    reason = limit(health, BROKEN, NOW + 24 * HOUR)

    assert reason == "none of 25 attempts since 2026-01-02 00:00 UTC was taken; the last: answered 500"
    assert limit(health, BROKEN, NOW + 23 * HOUR) is None
    assert limit(after(*[BROKEN] * (DISABLE_FAILURES - 1)), BROKEN, NOW + 100 * HOUR) is None
    assert limit(after(*[BROKEN] * 24, Answer(status=200), BROKEN, every=HOUR), BROKEN, NOW + 25 * HOUR) is None
    assert limit(health, BROKEN, NOW + 24 * HOUR, after=25 * HOUR) is None


def test_one_that_is_gone_is_at_its_limit_at_once():
    assert limit(after(Answer(status=410)), Answer(status=410), NOW) == "it answered 410 (Gone)"


def test_enabling_forgets_what_was_counted_and_tells_of_it():
    disabled = changes.disabled(after(*[BROKEN] * 30), at(HOUR), reason="nothing was taken", by=None)
    health = changes.enabled(disabled, at(2 * HOUR), by="ann")

    assert disabled.disabled is True
    assert changes.spared_until(disabled, NOW + 9 * HOUR, tried=False) == NOW + 9 * HOUR + FIRST_PAUSE
    assert health.disabled is False
    assert (health.failures, health.failing_since, health.strikes, health.pauses, health.paused_until) == (0, None, 0, 0, None)
    assert [(one.change, one.reason, one.by) for one in health.history] == [
        ("disabled", "nothing was taken", None),
        ("enabled", None, "ann"),
    ]


def test_the_history_is_bounded():
    health = NEW
    for number in range(50):
        health = changes.rotated(health, at(HOUR * number), by="ann")

    assert len(health.history) == KEPT_HISTORY
    assert health.history[-1].at == NOW + 49 * HOUR


@pytest.mark.parametrize(
    "over",
    [
        lambda health, moment: changes.succeeded(health, moment),
        lambda health, moment: changes.failed(health, REFUSED, moment),
        lambda health, moment: changes.enabled(changes.disabled(health, at(), reason="", by=None), moment, by="ann"),
    ],
    ids=["taken", "refused", "enabled"],
)
def test_it_was_spared_until_its_pause_is_over_and_no_longer(over):
    """Whoever was told of the pause a moment before puts off deliveries still."""
    spared = after(*[SILENT] * STRIKES)
    ended = over(spared, at(HOUR))

    assert (ended.spared_at, changes.may_go(ended)) == (NOW + HOUR, True)
    assert changes.succeeded(ended, at(2 * HOUR)).spared_at == NOW + HOUR
    assert [changes.may_go(one) for one in (NEW, spared, changes.drained(ended, at()))] == [False] * 3

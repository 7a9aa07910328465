"""What becomes of a delivery, by what its endpoint answers."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ConflictError
from shared.jobs.change import Moment
from shared.jobs.model import Event, EventType
from shared.jobs.states import State
from shared.webhooks import deliveries as changes
from shared.webhooks.deliveries import (
    FIRST_RETRY,
    KEPT_ATTEMPTS,
    KEPT_TEXT,
    LAST_RETRY,
    LEASE,
    LIFETIME,
    SHORTEST_RETRY,
    DeliveryState,
    retry_after,
    retry_delay,
)
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Answer, Failure
from workers.api.fleet.webhook_schemas import DeliverySummary

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB = "018f5b7e-0000-7000-8000-000000000001"
WEBHOOK = Webhook(id="w", url="https://h.example/x", events=("job.failed",), created_at=NOW, created_by="ada")
EVENT = Event(job_id=JOB, namespace="ns", number=7, type=EventType.FAILED, at=NOW, state=State.FAILED, execution=1)


def at(seconds=0.0, jitter=0.5):
    return Moment(now=NOW + timedelta(seconds=seconds), stamp=f"stamp-{seconds}", jitter=jitter)


@pytest.fixture
def delivery():
    return changes.made(EVENT, "job.failed", WEBHOOK, "ns", at())


def test_a_new_delivery_is_its_makers_for_the_time_of_a_lease(delivery):
    assert (delivery.state, delivery.next_at, delivery.deadline) == (DeliveryState.PENDING, NOW + LEASE, NOW + LIFETIME)
    assert delivery.message_id == f"{JOB}#7"
    assert (delivery.at, delivery.attempts) == (NOW, 0)


def test_a_new_delivery_to_a_disabled_endpoint_is_born_failed_and_can_be_sent_again():
    webhook = WEBHOOK.model_copy(update={"disabled_at": NOW, "disabled_reason": "gone"})
    born = changes.made(EVENT, "job.failed", webhook, "ns", at())

    assert (born.state, born.next_at, born.reason) == (DeliveryState.FAILED, None, "the webhook is disabled: gone")
    assert changes.redelivered(born, at(9)).state is DeliveryState.PENDING


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_status_of_the_200s_delivers(delivery, status):
    done = changes.attempted(delivery, Answer(status=status, text="ok", latency=12), at(1))

    assert (done.state, done.next_at, done.finished_at, done.reason) == (DeliveryState.DELIVERED, None, NOW + timedelta(seconds=1), None)
    assert [(one.status, one.latency, one.text) for one in done.latest] == [(status, 12, "ok")]
    assert done.stamp != delivery.stamp


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 403, 404, 405, 409, 410, 413, 418, 422, 451, 499])
def test_a_redirect_or_a_status_of_the_400s_is_final(delivery, status):
    done = changes.attempted(delivery, Answer(status=status), at(1))

    assert (done.state, done.next_at, done.reason, done.attempts) == (DeliveryState.FAILED, None, f"answered {status}", 1)


PASSING = [*(Answer(status=one) for one in (408, 425, 429, 500, 503, 599)), *(Answer(failure=one) for one in Failure)]


@pytest.mark.parametrize("answer", PASSING)
def test_what_may_pass_is_tried_again(delivery, answer):
    after = changes.attempted(delivery, answer, at(1, jitter=0.5))

    assert (after.state, after.next_at) == (DeliveryState.PENDING, NOW + timedelta(seconds=1) + FIRST_RETRY / 2)
    assert (after.attempts, after.failures, after.finished_at) == (1, 1, None)


def test_a_delivery_that_nobody_took_in_a_day_has_failed_and_not_before(delivery):
    almost = changes.attempted(delivery, Answer(status=500), at(LIFETIME.total_seconds() - 1, jitter=0.99))
    assert (almost.state, almost.next_at) == (DeliveryState.PENDING, delivery.deadline)

    done = changes.attempted(almost, Answer(failure=Failure.TIMEOUT), at(LIFETIME.total_seconds()))
    assert (done.state, done.reason) == (DeliveryState.FAILED, "no attempt of 2 has succeeded; the last: timeout")


def test_a_retry_after_is_honoured_where_it_is_later_than_the_schedule(delivery):
    after = changes.attempted(delivery, Answer(status=429, retry_after="120"), at())
    assert after.next_at == NOW + timedelta(seconds=120)

    sooner = changes.attempted(delivery, Answer(status=503, retry_after="0"), at(jitter=0.9))
    assert sooner.next_at == NOW + FIRST_RETRY * 0.9

    never = changes.attempted(delivery, Answer(status=503, retry_after="99999999999999"), at(60))
    assert never.next_at == delivery.deadline


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0),
        ("", 0),
        ("120", 120),
        (" 7 ", 7),
        ("-5", 0),
        ("1.5", 0),
        ("soon", 0),
        ("²", 0),
        ("9" * 5000, 86400),
        ("Fri, 02 Jan 2026 03:04:35 GMT", 30),
        ("Fri, 02 Jan 2026 03:04:35 -0000", 30),
        ("Fri, 02 Jan 2026 05:04:35 +0200", 30),
        ("Thu, 01 Jan 2026 00:00:00 GMT", 0),
        ("Fri, 02 Jan 2099 03:04:35 GMT", 86400),
        ("Fri, 99 Jan 2026 03:04:35 GMT", 0),
    ],
)
def test_what_a_retry_after_asks_for(header, seconds):
    assert retry_after(header, NOW) == timedelta(seconds=seconds)


@given(st.text(max_size=40))
def test_no_retry_after_breaks_anything(header):
    assert timedelta() <= retry_after(header, NOW) <= LIFETIME


@given(failures=st.integers(1, 10_000), jitter=st.floats(0, 1, exclude_max=True))
def test_retries_have_full_jitter_in_windows_that_double(failures, jitter):
    window = min(FIRST_RETRY * 2 ** min(failures - 1, 40), LAST_RETRY)
    assert retry_delay(failures, jitter) == max(window * jitter, SHORTEST_RETRY)


def test_a_day_of_retries_is_some_fifty_attempts():
    chance = random.Random(1)
    counts = []
    for _ in range(200):
        passed, failures = timedelta(), 0
        while passed < LIFETIME:
            failures += 1
            passed += retry_delay(failures, chance.random())
        counts.append(failures)
    assert 45 <= sum(counts) / len(counts) <= 65


def test_a_record_stays_small_however_often_it_is_tried(delivery):
    for number in range(30):
        delivery = changes.attempted(delivery, Answer(status=500, text="é" * 5000), at(number))

    assert (delivery.attempts, len(delivery.latest), delivery.failures) == (30, KEPT_ATTEMPTS, 30)
    assert [one.at for one in delivery.latest] == sorted(one.at for one in delivery.latest)
    assert {len(one.text) for one in delivery.latest} == {KEPT_TEXT}
    assert len(delivery.model_dump_json().encode()) < 4096


def test_an_answer_that_utf_8_can_not_carry_is_kept_all_the_same(delivery):
    assert changes.attempted(delivery, Answer(status=500, text="\ud800x"), at(1)).latest[0].text == "?x"


def test_waiting_counts_no_attempt(delivery):
    after = changes.waiting(delivery, NOW + timedelta(minutes=5), at(1))
    assert (after.state, after.attempts, after.next_at) == (DeliveryState.PENDING, 0, NOW + timedelta(minutes=5))


def test_what_is_held_up_is_let_go_by_a_lease(delivery):
    held = changes.held(delivery, NOW + timedelta(seconds=30), at(1))
    assert (held.state, held.state.final) == (DeliveryState.HELD, False)
    let_go = changes.leased(held, at(2))
    assert (let_go.state, let_go.next_at) == (DeliveryState.PENDING, NOW + timedelta(seconds=2) + LEASE)


def test_what_is_sent_again_keeps_its_id_and_has_another_day(delivery):
    failed = changes.attempted(delivery, Answer(status=404), at(1))
    again = changes.redelivered(failed, at(100_000))

    assert (again.message_id, again.state, again.attempts, again.failures) == (delivery.message_id, DeliveryState.PENDING, 1, 0)
    assert (again.next_at, again.deadline) == (NOW + timedelta(seconds=100_000), NOW + timedelta(seconds=100_000) + LIFETIME)
    assert (again.reason, again.finished_at) == (None, None)


def test_what_is_still_on_its_way_is_not_sent_again(delivery):
    with pytest.raises(ConflictError, match="still being sent"):
        changes.redelivered(delivery, at(1))


def test_one_that_waits_because_its_endpoint_is_being_spared_says_so_until_somebody_changes_it(delivery):
    waits = changes.waiting(delivery, NOW + timedelta(hours=1), at(1), spared=True)

    assert (waits.spared, waits.state, waits.tried) == (True, DeliveryState.PENDING, False)
    assert DeliverySummary.of(waits).reason == "its endpoint is being spared; it goes when that is well again"
    failed = changes.attempted(waits, Answer(status=503), at(2))
    assert failed.tried
    for after in (changes.leased(waits, at(2)), changes.given_up(waits, "x", at(2)), changes.held(waits, NOW, at(2)), failed):
        assert not after.spared
    assert not changes.redelivered(changes.given_up(failed, "x", at(3)), at(4)).tried

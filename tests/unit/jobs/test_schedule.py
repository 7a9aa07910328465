from datetime import timedelta

import pytest

from shared.jobs.model import Stop, StopIntent, Timeouts, Wait, WaitKind
from shared.jobs.schedule import due_at, in_ready_list, ready_order
from tests.unit.jobs.builders import NOW, claimed, pending, queued, running


def after(seconds):
    return NOW + timedelta(seconds=seconds)


def test_the_ready_order_puts_priority_before_age():
    urgent_late = queued(priority=100, submitted_at=after(500))
    plain_early = queued(priority=0)
    plain_late = queued(priority=0, submitted_at=after(1))

    assert sorted([plain_late, plain_early, urgent_late], key=ready_order) == [urgent_late, plain_early, plain_late]


def test_only_a_queued_job_without_a_wait_is_in_the_ready_list():
    waiting = queued(wait=Wait(kind=WaitKind.SPOT, until=NOW))

    assert in_ready_list(queued())
    assert not any(in_ready_list(head) for head in (waiting, claimed(), pending(), running()))


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (queued(), after(60)),
        (queued(wait=Wait(kind=WaitKind.RETRY, until=after(7))), after(7)),
        (queued(timeouts=Timeouts(queue_seconds=5)), after(5)),
        (queued(execution=2, timeouts=Timeouts(queue_seconds=5)), after(60)),
        (claimed(timeouts=Timeouts(total_seconds=5)), after(60)),
        (pending(), None),
        (pending(timeouts=Timeouts(total_seconds=90)), after(90)),
        (running(), None),
        (running(timeouts=Timeouts(execution_seconds=30, total_seconds=90)), after(30)),
        (running(stop=Stop(intent=StopIntent.CANCEL, reason="", requested_at=NOW), ring_at=after(30)), after(30)),
    ],
)
def test_a_job_is_due_when_the_first_thing_that_may_go_wrong_would_have(head, expected):
    assert due_at(head) == expected


def test_a_claim_to_be_stopped_is_not_due_before_its_lease_nor_before_the_next_bell():
    stop = Stop(intent=StopIntent.CANCEL, reason="", requested_at=NOW)

    assert due_at(claimed(stop=stop, ring_at=after(30))) == after(60)
    assert due_at(claimed(stop=stop, ring_at=after(95))) == after(95)

"""From the change of a job to the endpoint: the whole way, over the wire."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from datetime import timedelta

from shared.ids import RandomIds
from shared.jobs.model import Event, EventType
from shared.jobs.states import State
from shared.queues.dead_letters import DeadLetters
from shared.queues.events import body_of
from shared.queues.queue import Queue
from shared.settings import dead_letter_queue
from shared.store.history import History
from shared.webhooks.deliveries import DeliveryState
from tests.integration.webhooks.fleet import events_of, ids, told, until


async def test_what_happens_to_a_job_is_told_once_and_in_order(fleet):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    await fleet.worker()

    head = await fleet.ran()
    deliveries = await fleet.until_settled(webhook, 3)

    assert events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"]
    assert ids(receiver) == {f"{head.id}#{number}": 1 for number in (1, 4, 5)}
    assert {(one.number, one.state, one.attempts) for one in deliveries} == {(number, DeliveryState.DELIVERED, 1) for number in (1, 4, 5)}
    assert all(one.next_at is None for one in deliveries)
    completed = json.loads(receiver.received[-1].body)
    assert completed["cluster_id"] == "gpufleet-us-east-1"
    assert completed["job"] == {
        "name": "train",
        "namespace": "gco-jobs",
        "uid": "uid-1",
        "labels": {"team": "vision"},
        "status": "succeeded",
        "start_time": completed["job"]["start_time"],
        "completion_time": completed["job"]["completion_time"],
        "active": 0,
        "succeeded": 0,
        "failed": 0,
    }
    assert (completed["submitted_by"], completed["execution"]) == ("ada", 1)


async def test_only_who_subscribes_is_told_and_only_of_what_he_subscribes_to(fleet):
    ends, others, everywhere = await fleet.receiver(), await fleet.receiver(), await fleet.receiver()
    await fleet.subscribe(ends, events=("job.completed", "job.failed"))
    await fleet.subscribe(others, namespace="others")
    every = await fleet.subscribe(everywhere, events=("job.started",), namespace=None)
    await fleet.worker()

    head = await fleet.ran()
    there = await fleet.ran(namespace="others")
    await fleet.until_settled(every, 2)
    await until(lambda: len(ends.received) == 1 and len(others.received) == 3)

    assert events_of(ends, head.id) == ["job.completed"]
    assert events_of(others, there.id) == ["job.queued", "job.started", "job.completed"]
    assert sorted(map(told, everywhere.received)) == sorted([(f"{head.id}#4", "job.started"), (f"{there.id}#4", "job.started")])


async def test_a_webhook_is_told_of_nothing_that_was_before_it(fleet):
    early, late = await fleet.receiver(), await fleet.receiver()
    first = await fleet.subscribe(early)
    head = await fleet.running(await fleet.job())
    second = await fleet.subscribe(late)
    await fleet.ended(head)

    await fleet.worker()
    await fleet.until_settled(first, 3)
    await fleet.until_settled(second, 1)

    assert events_of(early, head.id) == ["job.queued", "job.started", "job.completed"]
    assert events_of(late, head.id) == ["job.completed"]


async def test_a_message_that_comes_twice_or_before_an_earlier_one_changes_nothing(fleet):
    """SQS does both: what was earlier is made from the table, and each delivery is made once."""
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    parts = await fleet.parts()
    head = await fleet.ran()

    for numbers in ({5}, {1}, {4}, {5, 1}):
        assert await parts.handler._fanout.tell(head.id, numbers)
    await parts.courier.lanes.idle()
    await fleet.until_settled(webhook, 3)

    assert events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"]
    assert set(ids(receiver).values()) == {1}


async def test_what_a_message_of_old_is_about_is_told_and_nothing_else_that_old(fleet, monkeypatch):
    """A dead letter that is sent again after days; what was told then may have been forgotten since, and isn't told anew."""
    monkeypatch.setattr("shared.webhooks.fanout.MENDED", timedelta())
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    parts = await fleet.parts()
    head = await fleet.ran()

    await parts.handler._fanout.tell(head.id, {4})
    await parts.courier.lanes.idle()

    await fleet.until_settled(webhook, 1)
    assert events_of(receiver, head.id) == ["job.started"]


async def test_two_workers_at_once_tell_each_event_once(fleet):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    await fleet.worker()
    await fleet.worker()

    heads = await asyncio.gather(*(fleet.ran() for _ in range(20)))
    await fleet.until_settled(webhook, 60)

    assert ids(receiver) == {f"{head.id}#{number}": 1 for head in heads for number in (1, 4, 5)}
    assert all(events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"] for head in heads)


async def test_a_message_that_means_nothing_becomes_a_dead_letter(fleet):
    worker = await fleet.worker(stream=False)
    head = await fleet.job()
    queue = worker.parts.queue
    bodies = ["no json", "[" * 100_000, "[]", json.dumps({"job_id": "x", "number": True}), json.dumps({"job_id": head.id, "number": 7})]
    for body in bodies:
        await queue.send(body)

    letters = await until(lambda: all_letters(fleet, len(bodies)))

    reasons = {letter.body: letter.attributes["reason"] for letter in letters}
    assert reasons.keys() == set(bodies)
    assert reasons[bodies[4]] == f"job {head.id} has no event 7"
    assert "/job_id" in reasons[bodies[3]]
    assert "/number" in reasons[bodies[3]]


async def all_letters(fleet, count):
    found = await fleet.dead_letters()
    return found if len(found) == count else None


async def test_dead_letters_can_be_sent_again(fleet):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    worker = await fleet.worker(stream=False)
    head = await fleet.job()
    body = json.dumps({"job_id": head.id, "number": 1})
    dead = await Queue.open(fleet.aws.sqs, dead_letter_queue(fleet.core.settings.events_queue))
    await dead.send(body, attributes={"reason": "a fault that has been mended"})

    await DeadLetters(fleet.aws.sqs, fleet.core.settings).redrive(fleet.core.settings.events_queue, None)

    await fleet.until_settled(webhook, 1)
    assert events_of(receiver, head.id) == ["job.queued"]
    await worker.stop()


async def test_where_nobody_subscribes_the_stream_costs_one_read_a_batch(fleet):
    """No write, no message, and no read for each job."""
    parts = await fleet.parts()
    heads = await asyncio.gather(*(fleet.ran() for _ in range(10)))
    calls = Counter()
    parts.table._meter = lambda operation, units: calls.update([operation])
    events = [event for head in heads for event in await History(fleet.table).events(head.id)]

    assert await parts.relay.pass_on(events) == 0

    assert calls == {"batch_get_item": 1}
    assert await parts.queue.count() == 0


async def test_a_message_of_an_event_is_small(fleet):
    longest = Event(
        job_id=RandomIds().job(),
        namespace="n" * 63,
        number=10**8 - 1,
        type=EventType.UNSCHEDULABLE,
        at=fleet.moment().now,
        state=State.FAILED,
        execution=1,
        message="x" * 1000,
    )
    assert len(body_of(longest).encode()) < 512

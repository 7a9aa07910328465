"""Endpoints that don't take what they are sent, or not at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from shared.clock import SystemClock
from shared.errors import ConflictError, UnavailableError
from shared.store.deliveries import Deliveries, DeliveryChangedError, DeliveryKey
from shared.webhooks import deliveries as changes
from shared.webhooks.deliveries import DeliveryState
from shared.webhooks.lanes import Lanes
from shared.webhooks.ports import Answer, Failure
from tests.integration.webhooks.fleet import events_of, failing, ids, running_fleet, told, until
from tests.unit.webhooks.receivers import answering


@pytest.fixture
def short_waits(monkeypatch):
    """A tenth of a second between attempts, and until what is held up is looked at."""
    monkeypatch.setattr(changes, "FIRST_RETRY", timedelta(seconds=0.1))
    monkeypatch.setattr(changes, "LAST_RETRY", timedelta(seconds=0.1))
    monkeypatch.setattr(changes, "SHORTEST_RETRY", timedelta(seconds=0.05))
    monkeypatch.setattr("shared.webhooks.sweeping.BACKLOG", timedelta(seconds=0.1))
    monkeypatch.setattr("workers.webhooks.sweep_loop.MIN_SECONDS", 0.02)


class NeverSpared:
    """Every endpoint is tried whenever a delivery wants it to be."""

    async def paused_until(self, webhook, *, tried):
        return None

    async def spared_until(self, webhook):
        return await self.paused_until(webhook, tried=False)

    async def may_go(self, webhook):
        return False

    async def answered(self, webhook, answer):
        return False

    async def drained(self, webhook):
        return None


async def test_what_fails_is_tried_again_under_the_same_id_and_with_the_same_body(fleet, short_waits):
    receiver = await fleet.receiver(failing(3))
    webhook = await fleet.subscribe(receiver, events=("job.completed",))
    await fleet.worker(health=NeverSpared())

    head = await fleet.ran()
    (delivery,) = await fleet.until_settled(webhook, 1)

    assert ids(receiver) == {f"{head.id}#5": 4}
    assert len({one.body for one in receiver.received}) == 1
    assert (delivery.state, delivery.attempts, delivery.failures) == (DeliveryState.DELIVERED, 4, 0)
    assert [one.status for one in delivery.latest] == [500, 500, 500, 200]
    assert delivery.latest[0].text == "not now"


async def test_what_is_refused_for_good_is_sent_once_and_what_follows_goes_on(fleet):
    receiver = await fleet.receiver(failing(1, "400 Bad Request"))
    webhook = await fleet.subscribe(receiver)
    await fleet.worker(health=NeverSpared())

    head = await fleet.ran()
    await fleet.until_settled(webhook, 3)

    assert events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"]
    first = await fleet.delivery(webhook, head, 1)
    assert (first.state, first.reason, first.attempts) == (DeliveryState.FAILED, "answered 400", 1)
    page = await fleet.deliveries.page(webhook.id, limit=10, failed=True)
    assert [one.number for one in page.deliveries] == [1]


async def test_an_event_waits_for_the_earlier_ones_of_its_job_and_for_no_others(fleet, short_waits):
    """In order as far as the receiver answers: nothing of the job comes before its first event has come."""
    receiver = await fleet.receiver()
    broken: set[str] = set()
    take = answering()

    async def respond(request, writer):
        job_id = told(request)[0].partition("#")[0]
        await (answering("503 Later") if job_id in broken else take)(request, writer)

    receiver = await fleet.receiver(respond)
    webhook = await fleet.subscribe(receiver)
    await fleet.worker(health=NeverSpared())

    held = await fleet.job()
    broken.add(held.id)
    held = await fleet.ended(await fleet.running(held))
    other = await fleet.ran()
    await fleet.until_settled(webhook, 3)
    assert events_of(receiver, other.id) == ["job.queued", "job.started", "job.completed"]
    assert set(events_of(receiver, held.id)) == {"job.queued"}
    states = [(await fleet.delivery(webhook, held, number)).state for number in (1, 4, 5)]
    assert states == [DeliveryState.PENDING, DeliveryState.HELD, DeliveryState.HELD]

    broken.clear()
    await fleet.until_settled(webhook, 6)
    assert [event for event in events_of(receiver, held.id) if event != "job.queued"] == ["job.started", "job.completed"]
    assert events_of(receiver, held.id)[-3:] == ["job.queued", "job.started", "job.completed"]


async def test_what_was_held_up_is_found_when_the_one_who_should_let_it_go_has_died(fleet, short_waits, monkeypatch):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    parts = await fleet.parts()
    head = await fleet.ran()
    with monkeypatch.context() as dying:
        dying.setattr("shared.webhooks.waiting.Waiting.release", nothing)
        await parts.handler._fanout.tell(head.id, {1, 4, 5})
        await parts.courier.lanes.idle()
    assert events_of(receiver, head.id) == ["job.queued"]

    for number in (4, 5):  # their looks are a lease away, since the first was under way
        held = await fleet.delivery(webhook, head, number)
        await fleet.deliveries.write(held, changes.held(held, fleet.moment().now, fleet.moment()))
    await fleet.worker()

    await fleet.until_settled(webhook, 3)
    assert events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"]


async def nothing(*_args, **_options):
    return None


async def test_a_sick_endpoint_delays_no_other(fleet):
    """One hangs, one answers 500, one is well: the well one has all of its own long before the hanging one has been given up once."""
    hangs, broken, well = await fleet.silent(), await fleet.receiver(answering("500 Broken")), await fleet.receiver()
    for receiver in (hangs, broken):
        await fleet.subscribe(receiver, events=("job.completed",))
    webhook = await fleet.subscribe(well, events=("job.completed",))
    await fleet.worker()

    heads = await asyncio.gather(*(fleet.ran() for _ in range(40)))
    await fleet.until_settled(webhook, 40, seconds=25)

    assert ids(well) == {f"{head.id}#5": 1 for head in heads}
    assert 0 < hangs.connections <= 24  # eight at a time, ten seconds each


async def test_what_finds_no_room_waits_in_the_table_and_is_sent_all_the_same(fleet, short_waits, monkeypatch):
    monkeypatch.setattr("shared.webhooks.fanout.NO_ROOM", timedelta(seconds=0.2))
    monkeypatch.setattr("shared.webhooks.courier.NO_ROOM", timedelta(seconds=0.2))
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver, events=("job.completed",))
    await fleet.worker(lanes=Lanes(each=1, total=4, waiting=2))

    heads = await asyncio.gather(*(fleet.ran() for _ in range(30)))
    await fleet.until_settled(webhook, 30)

    assert ids(receiver) == {f"{head.id}#5": 1 for head in heads}


async def test_deliveries_of_a_webhook_that_is_gone_or_disabled_are_given_up(fleet, short_waits):
    receiver = await fleet.receiver(answering("503 Later"))
    gone = await fleet.subscribe(receiver, events=("job.completed",))
    parts = await fleet.parts(health=NeverSpared())
    head = await fleet.ran()
    await parts.handler._fanout.tell(head.id, {5})
    await parts.courier.lanes.idle()
    assert (await fleet.delivery(gone, head, 5)).state is DeliveryState.PENDING

    await fleet.webhooks.remove(await fleet.webhooks.entry(gone.id))
    await fleet.worker(health=NeverSpared())

    (delivery,) = await fleet.until_settled(gone, 1)
    assert (delivery.state, delivery.reason) == (DeliveryState.FAILED, "webhook deleted")


async def test_an_endpoint_that_is_spared_is_not_tried_and_its_deliveries_wait(fleet, short_waits):
    class Spared(NeverSpared):
        asked = 0
        until = SystemClock().now() + timedelta(seconds=2)

        async def paused_until(self, webhook, *, tried):
            self.asked += 1
            return self.until if self.until > SystemClock().now() else None

    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver, events=("job.completed",))
    health = Spared()
    await fleet.worker(health=health)
    heads = await asyncio.gather(*(fleet.ran() for _ in range(10)))
    await until(lambda: health.asked)
    await until(lambda: len_of(fleet, webhook, 10))
    assert receiver.received == []

    await fleet.until_settled(webhook, 10)
    assert ids(receiver) == {f"{head.id}#5": 1 for head in heads}
    assert {one.attempts for one in (await fleet.deliveries.page(webhook.id, limit=100)).deliveries} == {1}


async def len_of(fleet, webhook, count):
    return len((await fleet.deliveries.page(webhook.id, limit=100)).deliveries) == count


async def test_a_delivery_can_be_sent_again_when_it_has_come_to_its_end(fleet, short_waits):
    receiver = await fleet.receiver(failing(1, "404 Not Found"))
    webhook = await fleet.subscribe(receiver, events=("job.completed",))
    await fleet.worker(health=NeverSpared())
    head = await fleet.ran()
    (failed,) = await fleet.until_settled(webhook, 1)

    again = await fleet.deliveries.write(failed, changes.redelivered(failed, fleet.moment()))
    with pytest.raises(ConflictError):
        changes.redelivered(again, fleet.moment())
    await until(lambda: len(receiver.received) == 2)
    await fleet.until_settled(webhook, 1)

    assert ids(receiver) == {f"{head.id}#5": 2}
    assert (await fleet.delivery(webhook, head, 5)).state is DeliveryState.DELIVERED
    assert (await fleet.deliveries.page(webhook.id, limit=10, failed=True)).deliveries == []


async def test_who_has_lost_his_lease_does_not_undo_what_another_has_done(fleet):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver, events=("job.completed",))
    parts = await fleet.parts()
    head = await fleet.ran()
    await parts.handler._fanout.tell(head.id, {5})
    await parts.courier.lanes.idle()
    delivered = await fleet.delivery(webhook, head, 5)
    stale = delivered.model_copy(update={"stamp": "older", "state": DeliveryState.PENDING})

    with pytest.raises(DeliveryChangedError):
        await parts.courier._write(stale, Answer(failure=Failure.TIMEOUT))
    with pytest.raises(DeliveryChangedError):
        await parts.courier._write(stale, Answer(status=200))
    assert await fleet.delivery(webhook, head, 5) == delivered

    waits = await fleet.deliveries.write(delivered, changes.redelivered(delivered, fleet.moment()))
    done = await parts.courier._write(stale, Answer(status=200))
    assert (done.state, done.stamp != waits.stamp) == (DeliveryState.DELIVERED, True)


async def test_pages_of_deliveries_go_on_newest_first(fleet):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    await fleet.worker()
    for _ in range(2):
        await fleet.ran()
    await fleet.until_settled(webhook, 6)

    whole = (await fleet.deliveries.page(webhook.id, limit=100)).deliveries
    first = await fleet.deliveries.page(webhook.id, limit=4)
    rest = await fleet.deliveries.page(webhook.id, limit=4, cursor=first.cursor)

    assert [one.at for one in whole] == sorted((one.at for one in whole), reverse=True)
    assert (first.deliveries + rest.deliveries, rest.cursor) == (whole, None)
    assert await fleet.deliveries.waiting() == 0
    assert (await fleet.deliveries.get(DeliveryKey(webhook.id, whole[0].job_id, whole[0].number))) == whole[0]


async def test_a_worker_that_is_asked_to_end_finishes_what_it_sends_and_gives_back_the_rest(fleet):
    """Nobody has to wait for a lease then: what was given back is due at once."""
    reached, going_on = asyncio.Event(), asyncio.Event()

    async def slowly(request, writer):
        reached.set()
        await going_on.wait()
        await answering()(request, writer)

    receiver = await fleet.receiver(slowly)
    webhook = await fleet.subscribe(receiver, events=("job.completed",))
    worker = await fleet.worker(lanes=Lanes(each=1, total=4, waiting=100))
    heads = [await fleet.ran() for _ in range(6)]
    await reached.wait()
    await until(lambda: len_of(fleet, webhook, 6))

    ending = asyncio.create_task(worker.stop())
    await until(lambda: worker.parts.courier.lanes._closed)
    going_on.set()
    await ending

    found = (await fleet.deliveries.page(webhook.id, limit=100)).deliveries
    states = Counter(one.state for one in found)
    assert states == {DeliveryState.DELIVERED: 1, DeliveryState.PENDING: 5}
    assert all(one.next_at <= fleet.moment().now for one in found if not one.state.final)
    await fleet.worker()
    await fleet.until_settled(webhook, 6)
    assert ids(receiver) == {f"{head.id}#5": 1 for head in heads}


@pytest.fixture
async def seldom(fleet_resources):
    """A fleet whose workers look at the index once an hour, unless a mark asks for more."""
    async with running_fleet(fleet_resources, sweep_seconds=3600.0) as running:
        yield running


async def test_the_worker_wakes_for_the_marks_that_it_has_written_itself(seldom, short_waits):
    receiver = await seldom.receiver(failing(2))
    webhook = await seldom.subscribe(receiver, events=("job.completed",))
    await seldom.worker(health=NeverSpared())

    head = await seldom.ran()
    await seldom.until_settled(webhook, 1)
    assert ids(receiver) == {f"{head.id}#5": 3}


async def test_the_worker_wakes_for_the_marks_that_it_has_seen(seldom, short_waits):
    receiver = await seldom.receiver(failing(1))
    webhook = await seldom.subscribe(receiver, events=("job.completed",))
    parts = await seldom.parts(health=NeverSpared())
    head = await seldom.ran()
    await parts.handler._fanout.tell(head.id, {5})
    await parts.courier.lanes.idle()
    failed = await seldom.delivery(webhook, head, 5)
    later = seldom.moment().now + timedelta(seconds=1)
    await seldom.deliveries.write(failed, failed.model_copy(update={"next_at": later, "stamp": "later"}))

    await seldom.worker(health=NeverSpared())
    await seldom.until_settled(webhook, 1)
    assert ids(receiver) == {f"{head.id}#5": 2}


async def test_what_is_due_and_can_not_be_seen_to_is_looked_at_again(seldom, short_waits, monkeypatch):
    monkeypatch.setattr("shared.webhooks.sweeping.AGAIN", timedelta(seconds=0.1))
    receiver = await seldom.receiver(failing(1))
    webhook = await seldom.subscribe(receiver, events=("job.completed",))
    parts = await seldom.parts(health=NeverSpared())
    head = await seldom.ran()
    await parts.handler._fanout.tell(head.id, {5})
    await parts.courier.lanes.idle()
    failures = [UnavailableError("no")] * 2
    read = Deliveries.story

    async def sometimes(self, job_id):
        if failures:
            raise failures.pop()
        return await read(self, job_id)

    monkeypatch.setattr(Deliveries, "story", sometimes)
    await seldom.worker(health=NeverSpared(), stream=False)
    await seldom.until_settled(webhook, 1)
    assert (ids(receiver), failures) == ({f"{head.id}#5": 2}, [])

"""What was given up is sent again: each job's events in order, and nothing of it is given up by what was true before."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from shared.webhooks import deliveries as changes
from shared.webhooks.deliveries import DeliveryState
from tests.integration.webhooks.fleet import events_of, failing, ids, running_fleet, told, until
from tests.integration.webhooks.test_retrying import NeverSpared
from tests.integration.webhooks.test_sick_endpoints import administration, current
from tests.unit.webhooks.receivers import answering

ORDER = ["job.queued", "job.started", "job.completed"]
JOBS = 12
AN_HOUR = timedelta(hours=1)


@pytest.fixture
def office(fleet):
    return administration(fleet)


async def states(fleet, webhook, head):
    return [(await fleet.delivery(webhook, head, number)).state.value for number in (1, 4, 5)]


async def given_up(fleet, webhook, head):
    """The events of a job that has run are told and given up."""
    parts = await fleet.parts(health=NeverSpared())
    await parts.handler._fanout.tell(head.id, {1, 4, 5})
    await parts.courier.lanes.idle()
    assert await states(fleet, webhook, head) == ["failed"] * 3
    return [await fleet.delivery(webhook, head, number) for number in (1, 4, 5)]


async def test_what_is_enabled_while_a_sweep_goes_on_is_not_given_up_any_more(fleet, office, monkeypatch):
    """Case 22: the sweep has read that the webhook is disabled, and sees to the delivery after it was enabled and sent again."""
    receiver = await fleet.receiver(failing(3, "404 Not Found"))
    webhook = await fleet.subscribe(receiver)
    head = await fleet.ran()
    await given_up(fleet, webhook, head)
    parts = await fleet.parts(health=NeverSpared())
    many = type(parts.sweeper._webhooks).many

    async def late(webhooks, wanted):
        """What was read while it was disabled, just before it was enabled and all sent again."""
        found = await many(webhooks, wanted)
        monkeypatch.undo()
        await office.enable(await current(fleet, webhook), by="ann")
        await office.redeliver_failed(await current(fleet, webhook), since=None)
        return found

    assert (await office.redeliver_failed(webhook, since=None)).count == 3  # so that the sweep finds something due
    await office.disable(webhook, reason=None, by="ann")
    monkeypatch.setattr(type(parts.sweeper._webhooks), "many", late)
    await parts.sweeper.sweep()
    await parts.courier.lanes.idle()

    assert await states(fleet, webhook, head) == ["delivered"] * 3
    assert events_of(receiver, head.id)[3:] == ORDER


async def test_all_that_waits_of_a_job_ends_together_when_its_webhook_is_disabled(fleet, office):
    receiver = await fleet.receiver(failing(1))
    webhook = await fleet.subscribe(receiver)
    head = await fleet.ran()
    parts = await fleet.parts(health=NeverSpared())
    await parts.handler._fanout.tell(head.id, {1, 4, 5})
    await parts.courier.lanes.idle()
    assert await states(fleet, webhook, head) == ["pending", "held", "held"]
    first = await fleet.delivery(webhook, head, 1)
    await fleet.deliveries.write(first, changes.waiting(first, fleet.moment().now, fleet.moment()))

    await office.disable(webhook, reason="maintenance", by="ann")
    await parts.sweeper.sweep()

    assert await states(fleet, webhook, head) == ["failed"] * 3
    assert {(await fleet.delivery(webhook, head, number)).reason for number in (1, 4, 5)} == {"the webhook is disabled: maintenance"}


async def test_an_event_after_the_webhook_was_enabled_is_not_given_up_by_an_older_record(fleet, office):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    parts = await fleet.parts(health=NeverSpared())
    await office.disable(webhook, reason=None, by="ann")
    batch = parts.handler._fanout.concerned()
    await batch.of(webhook.namespace)
    await office.enable(await current(fleet, webhook), by="ann")
    head = await fleet.ran()

    await parts.handler._fanout.tell(head.id, {1, 4, 5}, batch)
    await parts.courier.lanes.idle()

    assert events_of(receiver, head.id) == ORDER


@pytest.mark.parametrize("numbers", [(1, 4, 5), (5, 4, 1), (4, 5, 1)], ids=["in-order", "last-first", "mixed"])
async def test_single_ones_come_in_order_however_they_were_asked_for(fleet, office, numbers):
    receiver = await fleet.receiver(failing(3, "404 Not Found"))
    webhook = await fleet.subscribe(receiver)
    head = await fleet.ran()
    await given_up(fleet, webhook, head)
    for number in numbers:
        again = await office.redeliver(webhook, await fleet.delivery(webhook, head, number))
        earlier = [one for one in numbers[: numbers.index(number)] if one < number]
        assert again.state is (DeliveryState.HELD if earlier else DeliveryState.PENDING)
    await fleet.worker(health=NeverSpared())

    await fleet.until_settled(webhook, 3)
    assert events_of(receiver, head.id)[3:] == ORDER


async def test_a_later_one_that_waits_for_its_retry_is_held_behind_an_earlier_one_that_is_sent_again(fleet, office):
    """The earlier one can't be sent yet when the later one's time has come."""
    receiver = await fleet.receiver(failing(3, "404 Not Found"))
    webhook = await fleet.subscribe(receiver)
    head = await fleet.ran()
    await given_up(fleet, webhook, head)
    last = await office.redeliver(webhook, await fleet.delivery(webhook, head, 5))
    first = await office.redeliver(webhook, await fleet.delivery(webhook, head, 1))
    later = changes.waiting(first, fleet.moment().now + AN_HOUR, fleet.moment())
    first = await fleet.deliveries.write(first, later)
    parts = await fleet.parts(health=NeverSpared())

    await parts.sweeper.sweep()
    await parts.courier.lanes.idle()
    assert last.state is DeliveryState.PENDING
    assert await states(fleet, webhook, head) == ["pending", "failed", "held"]

    await fleet.deliveries.write(first, changes.waiting(first, fleet.moment().now, fleet.moment()))
    await parts.sweeper.sweep()
    await parts.courier.lanes.idle()
    assert await states(fleet, webhook, head) == ["delivered", "failed", "delivered"]
    assert events_of(receiver, head.id)[3:] == ["job.queued", "job.completed"]


@pytest.mark.parametrize("written", [1, 2])
async def test_what_a_redelivery_left_that_was_killed_comes_in_order(fleet, office, monkeypatch, written):
    receiver = await fleet.receiver(failing(3, "404 Not Found"))
    webhook = await fleet.subscribe(receiver)
    head = await fleet.ran()
    await given_up(fleet, webhook, head)
    left, write = [written], type(fleet.deliveries).write

    async def dying(deliveries, before, after):
        left[0] -= 1
        if left[0] < 0:
            raise asyncio.CancelledError
        return await write(deliveries, before, after)

    with monkeypatch.context() as killing:
        killing.setattr(type(fleet.deliveries), "write", dying)
        with pytest.raises(asyncio.CancelledError):
            await office.redeliver_failed(webhook, since=None)
    assert await states(fleet, webhook, head) == ["pending", *["held"] * (written - 1), *["failed"] * (3 - written)]

    assert (await office.redeliver_failed(webhook, since=None)).count == 3 - written
    assert await states(fleet, webhook, head) == ["pending", "held", "held"]
    await fleet.worker(health=NeverSpared())
    await fleet.until_settled(webhook, 3)
    assert events_of(receiver, head.id)[3:] == ORDER


async def test_all_is_sent_again_in_order_while_it_is_still_being_given_up(fleet_resources, monkeypatch):
    """Case 22, as its operator: enabled, and at once all that has failed sent again, while a sweep ends what waited for the endpoint."""
    monkeypatch.setattr("workers.webhooks.sweep_loop.MIN_SECONDS", 0.02)
    monkeypatch.setattr("shared.webhooks.administration._PAGE", 5)  # of a job the last event is on one page, the first on another
    broken = [True]

    async def respond(request, writer):
        await answering("500 Broken" if broken[0] else "200 OK")(request, writer)

    async with running_fleet(fleet_resources) as fleet:
        receiver, office = await fleet.receiver(respond), administration(fleet)
        webhook = await fleet.subscribe(receiver)
        heads = await asyncio.gather(*(fleet.ran() for _ in range(JOBS)))
        await fleet.worker(health=NeverSpared())
        await until(lambda: len({told(one)[0] for one in receiver.received}) == JOBS)
        await office.disable(webhook, reason=None, by="ann")

        async def ending():
            return (await fleet.deliveries.page(webhook.id, limit=1000, failed=True)).deliveries

        await until(ending)
        broken[0] = False
        await office.enable(await current(fleet, webhook), by="ann")
        since, had = fleet.moment().now, len(receiver.received)
        await office.redeliver_failed(await current(fleet, webhook), since=None)

        found = await fleet.until_settled(webhook, 3 * JOBS)
        late = [one for one in found if one.state is DeliveryState.FAILED and one.finished_at > since]
        assert late == []
        after = [told(one) for one in receiver.received[had:]]
        for head in heads:
            assert [event for message, event in after if message.startswith(head.id)] == ORDER
        assert {message for message, _ in after} <= ids(receiver).keys()

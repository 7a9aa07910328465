"""What is sent follows the webhook as it stands, not as it was when the delivery was queued. All changes are made through the API."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta

import pytest
from standardwebhooks import Webhook as StandardWebhook
from standardwebhooks import WebhookVerificationError

from shared.clock import SystemClock
from shared.webhooks import deliveries as changes
from shared.webhooks.deliveries import DeliveryState
from shared.webhooks.lanes import EACH
from shared.webhooks.standing import FRESH
from shared.webhooks.urls import UrlRules
from tests.integration.api.conftest import serving
from tests.integration.webhooks.fleet import NAMESPACE, ids, until
from tests.unit.webhooks.receivers import answering
from workers.api.core import build

JOBS = 50
OLD, NEW = "correct horse battery staple", "another horse, another staple"


class Slow:
    """An endpoint that answers nothing until it is let go."""

    def __init__(self):
        self.go = asyncio.Event()

    async def __call__(self, request, writer):
        await self.go.wait()
        await answering()(request, writer)


@pytest.fixture
async def client(fleet):
    core = await build(fleet.core.settings, fleet.aws)
    async with serving(dataclasses.replace(core, webhook_urls=UrlRules(local=True))) as found:
        yield found


async def subscribe(fleet, client, receiver, **fields):
    body = {"url": f"http://127.0.0.1:{receiver.port}/hook", "events": ["job.queued"], "namespace": NAMESPACE}
    answer = await client.post("/api/v1/webhooks", json=body | fields)
    assert answer.status_code == 201, answer.text
    webhook_id = answer.json()["webhook"]["id"]
    return (await fleet.webhooks.many([webhook_id]))[webhook_id]


async def queued(fleet, receiver):
    """Jobs of which as many are on the wire as may be, and all others wait in the lane."""
    worker = await fleet.worker()
    heads = await asyncio.gather(*(fleet.job() for _ in range(JOBS)))
    await until(lambda: len(receiver.received) == EACH and len(worker.parts.courier.lanes._keys) == JOBS)
    return heads


async def known_to_all():
    """Whatever was read before is too old to be sent by."""
    end = SystemClock().now() + FRESH
    await until(lambda: SystemClock().now() >= end)


async def test_a_deleted_webhook_is_sent_nothing_more_than_was_on_the_wire(fleet, client):
    slow = Slow()
    receiver = await fleet.receiver(slow)
    webhook = await subscribe(fleet, client, receiver, secret=OLD)
    await queued(fleet, receiver)

    assert (await client.delete(f"/api/v1/webhooks/{webhook.id}")).status_code == 200
    await known_to_all()
    slow.go.set()
    ended = await fleet.until_settled(webhook, JOBS)

    assert len(receiver.received) == EACH
    delivered = {one.message_id for one in ended if one.state is DeliveryState.DELIVERED}
    assert delivered == set(ids(receiver))
    assert {one.reason for one in ended if one.message_id not in delivered} == {"webhook deleted"}
    assert await fleet.deliveries.waiting() == 0


async def test_a_disabled_webhook_is_sent_nothing_more_than_was_on_the_wire(fleet, client):
    slow = Slow()
    receiver = await fleet.receiver(slow)
    webhook = await subscribe(fleet, client, receiver)
    await queued(fleet, receiver)

    assert (await client.post(f"/fleet/v1/webhooks/{webhook.id}/disable", json={"reason": "maintenance"})).status_code == 200
    await known_to_all()
    slow.go.set()
    ended = await fleet.until_settled(webhook, JOBS)

    assert len(receiver.received) == EACH
    assert {one.reason for one in ended if one.state is DeliveryState.FAILED} == {"the webhook is disabled: maintenance"}


async def test_a_rotation_without_overlap_is_the_end_of_the_old_secret(fleet, client):
    slow = Slow()
    receiver = await fleet.receiver(slow)
    webhook = await subscribe(fleet, client, receiver, secret=OLD)
    heads = await queued(fleet, receiver)

    body = {"secret": NEW, "overlap_seconds": 0}
    assert (await client.post(f"/fleet/v1/webhooks/{webhook.id}/rotate", json=body)).status_code == 200
    await known_to_all()
    slow.go.set()
    await fleet.until_settled(webhook, JOBS)

    assert ids(receiver) == {f"{head.id}#1": 1 for head in heads}
    assert len(receiver.received) == JOBS
    for received in receiver.received[EACH:]:
        StandardWebhook(NEW.encode()).verify(received.body, received.headers)
        with pytest.raises(WebhookVerificationError):
            StandardWebhook(OLD.encode()).verify(received.body, received.headers)


async def test_what_would_come_due_in_an_hour_ends_with_its_webhook(fleet, client, monkeypatch):
    monkeypatch.setattr(changes, "SHORTEST_RETRY", timedelta(hours=1))
    monkeypatch.setattr("shared.webhooks.sweeping.LOOK", timedelta(seconds=0.2))
    monkeypatch.setattr("shared.webhooks.sweeping.AT_ONCE", 3)
    receiver = await fleet.receiver(answering("503 Later"))
    webhook, standing = await subscribe(fleet, client, receiver), await subscribe(fleet, client, receiver)
    await fleet.worker()
    heads = await asyncio.gather(*(fleet.job() for _ in range(4)))

    async def failed_once():
        found = [await fleet.deliveries.page(one.id, limit=10) for one in (webhook, standing)]
        return [one.failures for page in found for one in page.deliveries] == [1] * 8

    await until(failed_once)
    assert (await client.delete(f"/api/v1/webhooks/{webhook.id}")).status_code == 200
    ended = await fleet.until_settled(webhook, 4)

    assert {(one.state, one.reason) for one in ended} == {(DeliveryState.FAILED, "webhook deleted")}
    assert len(receiver.received) == 8
    assert [(await fleet.delivery(standing, head, 1)).state for head in heads] == [DeliveryState.PENDING] * 4

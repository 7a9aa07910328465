"""From an event to its deliveries: one record for each webhook that was there when it happened, and subscribes to it.

Whoever hears of one event of a job reads them all, and makes what is missing of the earlier ones too: messages may be late, lost or out of
order, records never are. An event stands behind the earlier ones of its job that are still on their way to the same endpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Final

from shared.jobs.model import Event
from shared.store.deliveries import Deliveries, DeliveryKey, Story
from shared.store.webhooks import Webhooks
from shared.webhooks import deliveries as changes
from shared.webhooks.courier import NO_ROOM, Courier
from shared.webhooks.deliveries import Delivery, DeliveryState
from shared.webhooks.events import TOLD
from shared.webhooks.model import Webhook, WebhookEvent
from shared.webhooks.waiting import next_look

MENDED: Final = timedelta(hours=24)
"""How old events may be of which deliveries are made that nobody asked for: as old as what is in the table's stream."""


class Concerned:
    """The webhooks of namespaces, each read once: for one batch of messages, all of whose events happened before it was received."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks
        self._reading: dict[str, asyncio.Task[list[Webhook]]] = {}

    async def of(self, namespace: str) -> list[Webhook]:
        """Raises UnavailableError."""
        if namespace not in self._reading:
            self._reading[namespace] = asyncio.create_task(self._webhooks.concerned(namespace))
        return await self._reading[namespace]


class Fanout:
    """Makes deliveries of events and hands them to the courier."""

    def __init__(self, *, deliveries: Deliveries, webhooks: Webhooks, courier: Courier) -> None:
        self._deliveries = deliveries
        self._webhooks = webhooks
        self._courier = courier

    def concerned(self) -> Concerned:
        """To be asked for a batch of messages when it has been received."""
        return Concerned(self._webhooks)

    async def tell(self, job_id: str, numbers: Collection[int], concerned: Concerned | None = None) -> bool:
        """Make the deliveries of some events of a job; False where there are no such events. Raises UnavailableError.

        When it returns, every delivery stands in the table; sending them is another matter.
        """
        story = await self._deliveries.story(job_id)
        if story is None or not story.events.keys() >= set(numbers):
            return False
        webhooks = await (concerned or self.concerned()).of(story.head.namespace)
        await asyncio.gather(*(self._tell(webhook, story, numbers) for webhook in webhooks))
        return True

    async def _tell(self, webhook: Webhook, story: Story, numbers: Collection[int]) -> None:
        now = self._courier.moment().now
        if webhook.disabled_at is not None:
            # It may have been enabled since the batch was received, and before the latest of these events.
            standing = await self._courier.waiting.anew(webhook)
            if standing is None:
                return
            webhook = standing
        earlier: Delivery | None = None
        behind = False
        for event, kind in _told(story, webhook):
            delivery = story.deliveries.get(DeliveryKey(webhook.id, event.job_id, event.number))
            if delivery is None and (event.number in numbers or now - event.at < MENDED):
                delivery = await self._make(webhook, story, event, kind, earlier)
                behind = behind or delivery.state is DeliveryState.HELD
            if delivery is not None and not delivery.state.final and earlier is None:
                earlier = delivery
        if behind:
            # The one before may have come to its end just before this one stood, and let nothing go.
            await self._courier.waiting.release(webhook, story.head.id)

    async def _make(self, webhook: Webhook, story: Story, event: Event, kind: WebhookEvent, earlier: Delivery | None) -> Delivery:
        """The delivery that then stands: ours, or that of somebody who was faster."""
        moment = self._courier.moment()
        delivery = changes.made(event, kind, webhook, story.head.namespace, moment, lease=self._courier.lease)
        if delivery.state.final:
            return await self._deliveries.create(delivery)
        at_once = False
        if earlier is not None:
            delivery = changes.held(delivery, next_look(earlier, moment.now), moment)
        elif (spared := await self._courier.waiting.spared(webhook)) is not None:
            delivery = changes.waiting(delivery, spared, moment, spared=True)
        elif not self._courier.lanes.room(webhook.id):
            delivery = changes.waiting(delivery, moment.now + self._courier.spread(NO_ROOM), moment)
        else:
            at_once = True
        standing = await self._deliveries.create(delivery)
        if standing.stamp == delivery.stamp and at_once:
            await self._courier.take(standing, webhook, story)
        return standing


def _told(story: Story, webhook: Webhook) -> Iterator[tuple[Event, WebhookEvent]]:
    """The events of a job that a webhook is told of, in order: those that happened while it was registered."""
    for number in sorted(story.events):
        event = story.events[number]
        kind = TOLD.get(event.type)
        if kind is not None and kind in webhook.events and event.at >= webhook.created_at:
            yield event, kind

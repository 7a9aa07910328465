"""Sends deliveries: one attempt, and its outcome written; what waited for that is let go by `shared.webhooks.waiting`.

Who has a delivery has a lease on it, which is its due mark. So a worker that dies at any point here leaves a delivery that comes due, and
is sent again under the same id.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import FleetError, UnavailableError
from shared.ids import Ids
from shared.jobs.change import Moment
from shared.store.deliveries import Deliveries, DeliveryChangedError, Story, key_of
from shared.webhooks import deliveries as changes
from shared.webhooks import payloads
from shared.webhooks.deliveries import Delivery
from shared.webhooks.endpoints import is_strike
from shared.webhooks.lanes import Lanes
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Answer, Health, Message, Sender
from shared.webhooks.standing import Standing
from shared.webhooks.waiting import Waiting

log = structlog.get_logger()

NO_ROOM: Final = timedelta(seconds=5)
"""Within what time a delivery that found its lane full is looked at again."""
_WRITES: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Parcel:
    """A delivery that this worker holds the lease of, and all that is needed to send it; `webhook` is as it was when that was read."""

    delivery: Delivery
    webhook: Webhook
    message: Message


class Courier:
    """Sends what this process holds; one per process, since it bounds what is sent at a time."""

    def __init__(
        self,
        *,
        deliveries: Deliveries,
        sender: Sender,
        health: Health,
        standing: Standing,
        clock: Clock,
        ids: Ids,
        chance: random.Random,
        cluster: Callable[[str], str],
        lease: timedelta = changes.LEASE,
        lanes: Lanes | None = None,
    ) -> None:
        self._deliveries = deliveries
        self._sender = sender
        self._health = health
        self._standing = standing
        self._clock = clock
        self._ids = ids
        self._chance = chance
        self._cluster = cluster
        self.lease = lease
        self.lanes = lanes or Lanes()
        self._parcels: dict[object, Parcel] = {}
        self.waiting = Waiting(
            deliveries=deliveries,
            health=health,
            standing=standing,
            lanes=self.lanes,
            clock=clock,
            chance=chance,
            moment=self.moment,
            lease=lease,
            take=self.take,
        )

    def moment(self) -> Moment:
        """This moment, with a fresh nonce."""
        return Moment(now=self._clock.now(), stamp=self._ids.nonce(), jitter=self._chance.random())

    def spread(self, window: timedelta) -> timedelta:
        """A random part of a window, so that what waits together doesn't come together."""
        return window * self._chance.random()

    def message(self, story: Story, number: int) -> Message:
        """The message of an event of a story."""
        event = story.events[number]
        return payloads.message(story.head, event, story.executions.get(event.execution), cluster=self._cluster(story.head.region))

    async def take(self, delivery: Delivery, webhook: Webhook, story: Story) -> None:
        """Send a delivery whose lease is ours when its turn comes; where its lane is full it goes back to wait in the table."""
        parcel = Parcel(delivery=delivery, webhook=webhook, message=self.message(story, delivery.number))
        key = key_of(delivery)
        if self.lanes.offer(webhook.id, key, partial(self._deliver, parcel)):
            self._parcels[key] = parcel
        else:
            await self._put_back(parcel, self._clock.now() + self.spread(NO_ROOM))

    async def give_back(self, *, grace_seconds: float) -> None:
        """Finish what is being sent, for a while, and give back what waits. What isn't given back comes due when its lease ends."""
        await self.lanes.settle(grace_seconds=grace_seconds)
        now = self._clock.now()
        await asyncio.gather(*(self._put_back(parcel, now) for parcel in list(self._parcels.values())))

    async def close(self, *, grace_seconds: float) -> None:
        """Give back what waits, and send nothing any more."""
        await self.lanes.close(grace_seconds=grace_seconds)
        await self.give_back(grace_seconds=0)

    async def _deliver(self, parcel: Parcel) -> bool | None:
        """One attempt; whether the endpoint is there, None where it wasn't tried. Never raises: what fails is found when the lease ends."""
        webhook, delivery = parcel.webhook, parcel.delivery
        about = {"webhook": webhook.id, "message": delivery.message_id}
        answer: Answer | None = None
        try:
            answer = await self._attempt(parcel)
        except DeliveryChangedError:
            log.info("delivery is somebody else's by now", **about)
        except FleetError as error:
            log.warning("delivery not sent, or its outcome not written; it is sent again", error=str(error), **about)
        except Exception:
            log.exception("delivery not sent", **about)
        self._parcels.pop(key_of(delivery), None)
        return not is_strike(answer) if answer is not None else None

    async def _attempt(self, parcel: Parcel) -> Answer | None:
        """What the endpoint answered; None where it wasn't asked."""
        delivery = parcel.delivery
        webhook = await self._standing.of(parcel.webhook)
        if webhook is None:
            await self.waiting.give_up(delivery, changes.DELETED)
            return None
        parcel = replace(parcel, webhook=webhook)
        if webhook.disabled_at is not None:
            # Whoever finds it due decides, by a record of that moment: it may have been enabled since this one was read.
            await self._put_back(parcel, self._clock.now() + self.spread(NO_ROOM))
            return None
        paused = await self._health.paused_until(webhook, tried=delivery.tried)
        if paused is not None:
            await self._put_back(parcel, self.waiting.later(webhook, paused), spared=True)
            return None
        moment = self.moment()
        if delivery.next_at is None or delivery.next_at - moment.now < self.lease / 2:
            # It has waited in its lane. An attempt takes 20 s at most, and what came of it must be written.
            delivery = await self._deliveries.write(delivery, changes.leased(delivery, moment, lease=self.lease))
        answer = await self._sender.send(webhook, parcel.message)
        try:
            after = await self._write(delivery, answer)
        finally:
            going = await self._health.answered(webhook, answer)
        log.info(
            "delivery attempted",
            webhook=webhook.id,
            message=after.message_id,
            type=after.type,
            state=after.state,
            status=answer.status,
            failure=answer.failure,
            milliseconds=answer.latency,
            attempts=after.attempts,
        )
        if after.state.final:
            await self.waiting.release_next(after, webhook)
        if not is_strike(answer):
            await self.waiting.answered(webhook, going=going)
        return answer

    async def _write(self, delivery: Delivery, answer: Answer) -> Delivery:
        """Write what came of an attempt. Where the lease had ended and another has the delivery now, only a success is worth telling."""
        for _ in range(_WRITES):
            try:
                return await self._deliveries.write(delivery, changes.attempted(delivery, answer, self.moment()))
            except DeliveryChangedError as changed:
                current = changed.current
                delivered = answer.status is not None and 200 <= answer.status < 300
                if current is None or current.state.final or not delivered:
                    raise
                delivery = current
        raise UnavailableError(f"delivery of {delivery.message_id} changed {_WRITES} times while its outcome was to be written")

    async def _put_back(self, parcel: Parcel, until: datetime, *, spared: bool = False) -> None:
        """It waits in the table; what isn't written comes due when the lease ends."""
        delivery = parcel.delivery
        self._parcels.pop(key_of(delivery), None)
        try:
            await self.waiting.put_off(delivery, parcel.webhook, until, spared=spared)
        except UnavailableError as error:
            log.warning("delivery not given back", message=delivery.message_id, error=str(error))

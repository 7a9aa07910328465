"""Sends deliveries: one attempt, its outcome written, and then whatever waited for it.

Who has a delivery has a lease on it, which is its due mark. So a worker that dies at any point here leaves a delivery that comes due, and
is sent again under the same id.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
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
from shared.webhooks.backlog import Backlogs
from shared.webhooks.deliveries import Delivery, DeliveryState
from shared.webhooks.endpoints import is_strike
from shared.webhooks.events import LAST
from shared.webhooks.lanes import EACH, Lanes
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Answer, Health, Message, Sender
from shared.webhooks.standing import Standing

log = structlog.get_logger()

NO_ROOM: Final = timedelta(seconds=5)
"""Within what time a delivery that found its lane full is looked at again."""
AFTER_EARLIER: Final = timedelta(seconds=30)
"""How long after the next attempt of an earlier event the one that it holds up is looked at, should nobody have let it go."""
LONGEST_PAUSE: Final = timedelta(hours=1)
"""After so long a delivery to an endpoint that is being spared is looked at, should nobody have let it go."""
APART: Final = timedelta(seconds=1)
"""How far apart they are looked at. However many wait for an endpoint, they don't crowd the index of what is due."""
LET_GO: Final = 2
"""How many of those go for each attempt that shows that the endpoint is well: twice as many each time, as in TCP's slow start."""
LOOKED_AT: Final = 10
"""How many are looked at for that, since others let go of them too."""
_WRITES: Final = 5

Build = Callable[[Delivery, Moment], Delivery]


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
        self._spared: dict[str, datetime] = {}
        self._put_off: Counter[str] = Counter()
        self._backlogs = Backlogs(deliveries, clock)

    def moment(self) -> Moment:
        """This moment, with a fresh nonce."""
        return Moment(now=self._clock.now(), stamp=self._ids.nonce(), jitter=self._chance.random())

    def spread(self, window: timedelta) -> timedelta:
        """A random part of a window, so that what waits together doesn't come together."""
        return window * self._chance.random()

    def is_spared(self, webhook_id: str) -> bool:
        """Whether new deliveries to an endpoint probably wait, by the last that this process heard of it, however long ago that was."""
        until = self._spared.get(webhook_id)
        return until is not None and until > self._clock.now()

    async def spared(self, webhook: Webhook) -> datetime | None:
        """When a new delivery to an endpoint is to be looked at that is being spared; None where it isn't: at once.

        When the pause is over, one attempt shows how it fares, and not all of them: they are spread over as long again as the endpoint is
        spared, and over a second for each that was put off so far. All go sooner when it is well.
        """
        until = await self._health.spared_until(webhook)
        if until is None:
            self._spared.pop(webhook.id, None)
            return None
        return self._later(webhook, until)

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

    async def release(self, webhook: Webhook, job_id: str) -> None:
        """Let the earliest event of a job go that was held up, if nothing before it is still on its way."""
        story = await self._deliveries.story(job_id)
        if story is None:
            return
        for delivery in story.to(webhook.id):
            if delivery.state.final:
                continue
            if delivery.state is DeliveryState.HELD:
                await self.resume(delivery, webhook, story)
            return

    async def resume(self, delivery: Delivery, webhook: Webhook, story: Story) -> None:
        """Take on a delivery that is due, or was held up and is not any more. Somebody else may be faster: then it is his.

        One that is behind another waits for it, however it came to be so: an earlier event is sent again while this one waits for a retry.
        """
        standing = await self.enabled(webhook, story) if webhook.disabled_at is not None else webhook
        if standing is None:
            return
        if (earlier := story.before(delivery)) is not None:
            await self.hold(delivery, standing, earlier)
            return
        try:
            leased = await self._deliveries.write(delivery, changes.leased(delivery, self.moment(), lease=self.lease))
        except DeliveryChangedError as changed:
            if changed.current is not None and changed.current.state is DeliveryState.HELD:
                # Somebody held it anew who had read of the earlier one before that came to its end.
                await self.release(standing, delivery.job_id)
            return
        await self.take(leased, standing, story)

    async def hold(self, delivery: Delivery, webhook: Webhook, earlier: Delivery) -> None:
        """Let a delivery wait for an earlier one of its job."""
        moment = self.moment()
        try:
            await self._deliveries.write(delivery, changes.held(delivery, next_look(earlier, moment.now), moment))
        except DeliveryChangedError:
            return
        if delivery.state is not DeliveryState.HELD:
            # The earlier one may have come to its end just before this one was held, and let nothing go.
            await self.release(webhook, delivery.job_id)

    async def enabled(self, webhook: Webhook, story: Story) -> Webhook | None:
        """A webhook that was disabled when it was read, if it is not any more; else all that waits for it in a story ends, together.

        It is read anew, after the story: what is sent again since it was enabled is not in a story that ends here. Raises UnavailableError.
        """
        standing = await self.anew(webhook)
        if standing is not None and standing.disabled_at is None:
            return standing
        reason = changes.disabled(standing) if standing is not None else changes.DELETED
        now = self._clock.now()
        for delivery in story.to(webhook.id):
            if not delivery.state.final and not (delivery.state is DeliveryState.PENDING and self.may_be_sent(delivery, now)):
                await self.give_up(delivery, reason)
        return None

    async def anew(self, webhook: Webhook) -> Webhook | None:
        """A webhook as it stands now; None where it was deleted. Raises UnavailableError."""
        return await self._standing.anew(webhook)

    def may_be_sent(self, delivery: Delivery, now: datetime) -> bool:
        """Whether somebody may be sending it, who comes to know himself that its webhook was disabled or deleted."""
        return delivery.next_at is not None and now < delivery.next_at <= now + self.lease

    async def give_up(self, delivery: Delivery, reason: str) -> None:
        """End a delivery that can't be sent, unless somebody else has changed it."""
        try:
            await self._deliveries.write(delivery, changes.given_up(delivery, reason, self.moment()))
        except DeliveryChangedError:
            return

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
            await self.give_up(delivery, changes.DELETED)
            return None
        parcel = replace(parcel, webhook=webhook)
        if webhook.disabled_at is not None:
            # Whoever finds it due decides, by a record of that moment: it may have been enabled since this one was read.
            await self._put_back(parcel, self._clock.now() + self.spread(NO_ROOM))
            return None
        paused = await self._health.paused_until(webhook, tried=delivery.tried)
        if paused is not None:
            await self._put_back(parcel, self._later(webhook, paused), spared=True)
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
            await self._release_next(after, webhook)
        if not is_strike(answer):
            self._spared.pop(webhook.id, None)
            self._put_off.pop(webhook.id, None)
            if going:
                await self._let_go(webhook)
        return answer

    async def look_after(self, webhook: Webhook) -> None:
        """Let go of some of what was put off for an endpoint that is well, should nobody else do so.

        Who has not heard yet that it is well may have put off one when all others were gone, and who takes one may die before he lets go
        of the next.
        """
        if await self._health.may_go(webhook):
            await self._let_go(webhook)

    async def _let_go(self, webhook: Webhook) -> None:
        """Take on some of what was put off while an endpoint was being spared. Each that it takes lets go of others."""
        going = 0
        for _ in range(LOOKED_AT):
            if going == LET_GO or self.lanes.waiting(webhook.id) >= EACH:
                return
            key = await self._backlogs.next(webhook.id)
            if key is None:
                if self._backlogs.empty(webhook.id):
                    await self._health.drained(webhook)
                return
            story = await self._deliveries.story(key.job_id)
            delivery = story.deliveries.get(key) if story is not None else None
            if story is not None and delivery is not None and delivery.spared:
                await self.resume(delivery, webhook, story)
                going += 1

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

    async def _release_next(self, delivery: Delivery, webhook: Webhook) -> None:
        """Nothing follows the end of a job; so the last event, which most webhooks are about, costs no further read."""
        if delivery.type not in LAST:
            await self.release(webhook, delivery.job_id)

    async def _put_back(self, parcel: Parcel, until: datetime, *, spared: bool = False) -> None:
        """It waits in the table; what isn't written comes due when the lease ends."""
        delivery = parcel.delivery
        self._parcels.pop(key_of(delivery), None)
        try:
            await self.put_off(delivery, parcel.webhook, until, spared=spared)
        except UnavailableError as error:
            log.warning("delivery not given back", message=delivery.message_id, error=str(error))

    async def put_off(self, delivery: Delivery, webhook: Webhook, until: datetime, *, spared: bool) -> None:
        """Let a delivery wait without an attempt. One that is `spared` is given up when its time is over; any other has a last attempt."""
        moment = self.moment()
        over = moment.now >= delivery.deadline
        if over and spared:
            await self.give_up(delivery, "its endpoint was not to be tried until its time was over")
            await self._release_next(delivery, webhook)
            return
        later = until if over else min(until, delivery.deadline)
        try:
            await self._deliveries.write(delivery, changes.waiting(delivery, later, moment, spared=spared))
        except DeliveryChangedError as changed:
            log.info("delivery is somebody else's by now", message=delivery.message_id, state=changed.current and changed.current.state)

    def _later(self, webhook: Webhook, until: datetime) -> datetime:
        """When one more delivery is looked at that waits for an endpoint that is being spared until then."""
        self._spared[webhook.id] = until
        self._put_off[webhook.id] += 1
        now = self._clock.now()
        return min(until + self.spread(max(until - now, self._put_off[webhook.id] * APART)), now + LONGEST_PAUSE)


def next_look(earlier: Delivery, now: datetime) -> datetime:
    """When a delivery is looked at that an earlier one holds up, should nobody let it go."""
    return max(now, earlier.next_at or now) + AFTER_EARLIER

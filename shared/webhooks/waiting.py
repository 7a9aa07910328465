"""What waits, behind an earlier event of its job or for an endpoint that is being spared, and what lets it go.

Whatever waits has a time at which it is looked at should nobody let it go. Who lets it go takes a lease on it, and has it sent.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.jobs.change import Moment
from shared.store.deliveries import Deliveries, DeliveryChangedError, Story
from shared.webhooks import deliveries as changes
from shared.webhooks.backlog import Backlogs
from shared.webhooks.deliveries import Delivery, DeliveryState
from shared.webhooks.events import LAST
from shared.webhooks.lanes import EACH, Lanes
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Health
from shared.webhooks.standing import Standing

log = structlog.get_logger()

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

Take = Callable[[Delivery, Webhook, Story], Awaitable[None]]
"""Sends a delivery whose lease is ours."""


class Waiting:
    """Lets deliveries wait, and go."""

    def __init__(
        self,
        *,
        deliveries: Deliveries,
        health: Health,
        standing: Standing,
        lanes: Lanes,
        clock: Clock,
        chance: random.Random,
        moment: Callable[[], Moment],
        lease: timedelta,
        take: Take,
    ) -> None:
        self._deliveries = deliveries
        self._health = health
        self._standing = standing
        self._lanes = lanes
        self._clock = clock
        self._chance = chance
        self._moment = moment
        self._lease = lease
        self._take = take
        self._spared: dict[str, datetime] = {}
        self._put_off: Counter[str] = Counter()
        self._backlogs = Backlogs(deliveries, clock)

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
        return self.later(webhook, until)

    def later(self, webhook: Webhook, until: datetime) -> datetime:
        """When one more delivery is looked at that waits for an endpoint that is being spared until then."""
        self._spared[webhook.id] = until
        self._put_off[webhook.id] += 1
        now = self._clock.now()
        return min(until + max(until - now, self._put_off[webhook.id] * APART) * self._chance.random(), now + LONGEST_PAUSE)

    async def put_off(self, delivery: Delivery, webhook: Webhook, until: datetime, *, spared: bool) -> None:
        """Let a delivery wait without an attempt. One that is `spared` is given up when its time is over; any other has a last attempt."""
        moment = self._moment()
        over = moment.now >= delivery.deadline
        if over and spared:
            await self.give_up(delivery, "its endpoint was not to be tried until its time was over")
            await self.release_next(delivery, webhook)
            return
        later = until if over else min(until, delivery.deadline)
        try:
            await self._deliveries.write(delivery, changes.waiting(delivery, later, moment, spared=spared))
        except DeliveryChangedError as changed:
            log.info("delivery is somebody else's by now", message=delivery.message_id, state=changed.current and changed.current.state)

    async def answered(self, webhook: Webhook, *, going: bool) -> None:
        """An endpoint that is there has answered; where they are `going`, let go of some of what was put off for it."""
        self._spared.pop(webhook.id, None)
        self._put_off.pop(webhook.id, None)
        if going:
            await self._let_go(webhook)

    async def look_after(self, webhook: Webhook) -> None:
        """Let go of some of what was put off for an endpoint that is well, should nobody else do so.

        Who has not heard yet that it is well may have put off one when all others were gone, and who takes one may die before he lets go
        of the next.
        """
        if await self._health.may_go(webhook):
            await self._let_go(webhook)

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

    async def release_next(self, delivery: Delivery, webhook: Webhook) -> None:
        """Nothing follows the end of a job; so the last event, which most webhooks are about, costs no further read."""
        if delivery.type not in LAST:
            await self.release(webhook, delivery.job_id)

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
            leased = await self._deliveries.write(delivery, changes.leased(delivery, self._moment(), lease=self._lease))
        except DeliveryChangedError as changed:
            if changed.current is not None and changed.current.state is DeliveryState.HELD:
                # Somebody held it anew who had read of the earlier one before that came to its end.
                await self.release(standing, delivery.job_id)
            return
        await self._take(leased, standing, story)
        await self._look_sooner(leased, story)

    async def hold(self, delivery: Delivery, webhook: Webhook, earlier: Delivery) -> None:
        """Let a delivery wait for an earlier one of its job."""
        moment = self._moment()
        try:
            await self._deliveries.write(delivery, changes.held(delivery, next_look(earlier, moment.now), moment))
        except DeliveryChangedError:
            return
        if delivery.state is not DeliveryState.HELD:
            # The earlier one may have come to its end just before this one was held, and let nothing go.
            await self.release(webhook, delivery.job_id)

    async def _look_sooner(self, earlier: Delivery, story: Story) -> None:
        """What is held behind a delivery that goes may have been to be looked at after a long pause that is over now."""
        following = next((one for one in story.to(earlier.webhook_id) if one.number > earlier.number and not one.state.final), None)
        moment = self._moment()
        look = next_look(earlier, moment.now)
        if following is None or following.state is not DeliveryState.HELD or following.next_at is None or following.next_at <= look:
            return
        with suppress(DeliveryChangedError):
            await self._deliveries.write(following, changes.held(following, look, moment))

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
        return delivery.next_at is not None and now < delivery.next_at <= now + self._lease

    async def give_up(self, delivery: Delivery, reason: str) -> None:
        """End a delivery that can't be sent, unless somebody else has changed it."""
        try:
            await self._deliveries.write(delivery, changes.given_up(delivery, reason, self._moment()))
        except DeliveryChangedError:
            return

    async def _let_go(self, webhook: Webhook) -> None:
        """Take on some of what was put off while an endpoint was being spared. Each that it takes lets go of others."""
        going = 0
        for _ in range(LOOKED_AT):
            if going == LET_GO or self._lanes.waiting(webhook.id) >= EACH:
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


def next_look(earlier: Delivery, now: datetime) -> datetime:
    """When a delivery is looked at that an earlier one holds up, should nobody let it go."""
    return max(now, earlier.next_at or now) + AFTER_EARLIER

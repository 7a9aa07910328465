"""Whatever delivery is overdue: retries whose time has come, what a worker that died had taken on, what somebody wants sent again."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import UnavailableError
from shared.store.deliveries import Deliveries, Mark, Story
from shared.store.webhooks import Webhooks
from shared.webhooks import deliveries as changes
from shared.webhooks.courier import Courier
from shared.webhooks.deliveries import Delivery
from shared.webhooks.model import Webhook

log = structlog.get_logger()

PAGE: Final = 500
"""Marks that are read at a time."""
PAGES: Final = 20
"""Pages of a sweep at most; where that is not all that is due, the next sweep goes on behind them."""
AT_ONCE: Final = 200
"""Deliveries that a sweep takes on: of each endpoint one, of each that has more a second one, and so on."""
BACKLOG: Final = timedelta(seconds=1)
"""How soon it is looked again where more was due than there was room for."""
AGAIN: Final = timedelta(seconds=5)
"""How soon it is looked again at what was due and could not be seen to, or was under way in this process beyond its lease."""
LOOK: Final = timedelta(seconds=30)
"""How often, while anything waits, it is looked for what waits for webhooks that were deleted or disabled, and for what was put off for
endpoints that are well by now: it may come due in an hour."""
SPARED: Final = 20
"""Deliveries to an endpoint that is being spared, which a sweep looks at."""


class DeliverySweeper:
    """Takes on what is due. Any number may run: each delivery is taken by one conditional write."""

    def __init__(
        self,
        *,
        deliveries: Deliveries,
        webhooks: Webhooks,
        courier: Courier,
        clock: Clock,
        chance: random.Random,
    ) -> None:
        self._deliveries = deliveries
        self._webhooks = webhooks
        self._courier = courier
        self._clock = clock
        self._chance = chance
        self._look_at: datetime | None = None
        self._read_to: Mark | None = None

    async def sweep(self) -> datetime | None:
        """Take on what is due and there is room for; returns when there is more to do, None where nothing waits.

        Raises UnavailableError where the marks can't be read. One delivery that can't be seen to doesn't hold up the others.
        """
        chosen, later, following = await self._due()
        webhooks = await self._webhooks.many({mark.key.webhook_id for mark in [*chosen, *later]})
        orphans = [mark for mark in later if _ended(webhooks.get(mark.key.webhook_id))]
        if len(orphans) > AT_ONCE:
            self._look_at = None
            following = _earlier(following, self._clock.now() + BACKLOG)
        by_job: defaultdict[str, list[Mark]] = defaultdict(list)
        for mark in [*chosen, *orphans[:AT_ONCE]]:
            by_job[mark.key.job_id].append(mark)
        seen_to = await asyncio.gather(*(self._see_to_job(job_id, marks, webhooks) for job_id, marks in by_job.items()))
        await self._look_after({mark.key.webhook_id for mark in later}, webhooks)
        return following if all(seen_to) else _earlier(following, self._clock.now() + AGAIN)

    async def _look_after(self, waiting: Set[str], webhooks: Mapping[str, Webhook]) -> None:
        """See to what was put off for endpoints that are well. Costs a read for each for which something waits; of very many, some."""
        standing = [webhook for key in sorted(waiting) if not _ended(webhook := webhooks.get(key)) and webhook is not None]
        chosen = self._chance.sample(standing, min(len(standing), AT_ONCE))
        await asyncio.gather(*(self._look_after_one(webhook) for webhook in chosen))

    async def _look_after_one(self, webhook: Webhook) -> None:
        try:
            await self._courier.waiting.look_after(webhook)
        except UnavailableError as error:
            log.warning("what was put off is not seen to", webhook=webhook.id, error=str(error))

    async def _due(self) -> tuple[list[Mark], list[Mark], datetime | None]:
        """Marks whose time has come and whose lane has room, in random order so that two sweepers seldom meet; now and then those too
        that come due later than any lease ends, which is what nobody is sending now; and when to look again."""
        now = self._clock.now()
        look = self._look_at is None or self._look_at <= now
        later: list[Mark] = []
        due: list[tuple[int, Mark]] = []
        # What stands before the place where this sweep begins is as due as the rest.
        following = now + BACKLOG if self._read_to is not None else None
        lanes, taken = self._courier.lanes, Counter[str]()
        async for mark in self._marks():
            webhook_id = mark.key.webhook_id
            if mark.at > now:
                following = _earlier(following, mark.at)
                if not look:
                    break
                if mark.at > now + self._courier.lease:
                    later.append(mark)
                continue
            if lanes.holds(mark.key):
                following = _earlier(following, now + AGAIN)
                continue
            if taken[webhook_id] < min(lanes.room(webhook_id), SPARED if self._courier.waiting.is_spared(webhook_id) else AT_ONCE):
                taken[webhook_id] += 1
                due.append((taken[webhook_id], mark))
            else:
                following = _earlier(following, now + BACKLOG)
        due.sort(key=lambda ranked: ranked[0])  # stable: the earliest first of those that are the n-th of their endpoints
        if len(due) > AT_ONCE:
            following = _earlier(following, now + BACKLOG)
        chosen = [mark for _, mark in due[:AT_ONCE]]
        self._chance.shuffle(chosen)
        if look:
            self._look_at = now + LOOK
        return chosen, later, following

    async def _marks(self) -> AsyncIterator[Mark]:
        """The earliest marks, page by page as they are needed; or those behind where the last sweep had to stop."""
        last, self._read_to = self._read_to, None
        for _ in range(PAGES):
            marks = await self._deliveries.due(limit=PAGE, after=last)
            for mark in marks:
                yield mark
            if len(marks) < PAGE:
                return
            last = marks[-1]
        self._read_to = last

    async def _see_to_job(self, job_id: str, marks: Sequence[Mark], webhooks: dict[str, Webhook]) -> bool:
        """Whether the table could be read and written."""
        try:
            story = await self._deliveries.story(job_id)
            for mark in marks:
                delivery = story.deliveries.get(mark.key) if story is not None else None
                if story is not None and delivery is not None and not self._courier.lanes.holds(mark.key):
                    await self._see_to(delivery, webhooks.get(delivery.webhook_id), story)
        except UnavailableError as error:
            log.warning("due deliveries not seen to", job=job_id, error=str(error))
            return False
        return True

    async def _see_to(self, delivery: Delivery, webhook: Webhook | None, story: Story) -> None:
        """What stands in the table decides, not the mark: an index is a little behind."""
        now = self._clock.now()
        if delivery.next_at is None:
            return
        if _ended(webhook) and self._courier.waiting.may_be_sent(delivery, now):
            return
        if webhook is None:
            await self._courier.waiting.give_up(delivery, changes.DELETED)
            return
        if webhook.disabled_at is not None:
            standing = await self._courier.waiting.enabled(webhook, story)
            if standing is None:
                return
            webhook = standing
        if delivery.next_at > now:
            return
        if (earlier := story.before(delivery)) is not None:
            await self._courier.waiting.hold(delivery, webhook, earlier)
            return
        spared = await self._courier.waiting.spared(webhook) if not delivery.tried else None
        if spared is not None:
            await self._courier.waiting.put_off(delivery, webhook, spared, spared=True)
            return
        await self._courier.waiting.resume(delivery, webhook, story)


def _ended(webhook: Webhook | None) -> bool:
    return webhook is None or webhook.disabled_at is not None


def _earlier(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else min(one, other)

"""Who knows how endpoints fare: asked before every attempt, and told of what came of it (`shared.webhooks.ports.Health`).

What counts is in the table, so that workers and processes that live for a second share it; each keeps what it has read for some seconds. An
endpoint that is well costs a read every few seconds in which it is told of something, and a write a minute; each failure is one write more.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import NotFoundError, UnavailableError
from shared.ids import Ids
from shared.jobs.change import Moment
from shared.store.endpoints import Endpoints, HealthChangedError
from shared.webhooks import endpoints as changes
from shared.webhooks.endpoints import EndpointHealth
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Answer, Failure

FRESH: Final = timedelta(seconds=5)
"""How long is used what was read."""
NOTED: Final = timedelta(minutes=1)
"""How often it is noted of an endpoint that is well that it still is."""
_KNOWN: Final = 5000
_WRITES: Final = 20
_COUNTED: Final = 4
"""After so many writes that met another's, one failure more of an endpoint that is being spared is not worth a further one."""
_STEP: Final = 0.01
_LONGEST_STEP: Final = 0.5

log = structlog.get_logger()


@dataclass
class _Known:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    health: EndpointHealth | None = None
    read_at: datetime | None = None


class TableHealth:
    """How endpoints fare, kept in the table. None of its methods raises."""

    def __init__(
        self, *, endpoints: Endpoints, clock: Clock, ids: Ids, chance: random.Random, disable_after: timedelta = changes.DISABLE_AFTER
    ) -> None:
        self._endpoints = endpoints
        self._clock = clock
        self._ids = ids
        self._chance = chance
        self._disable_after = disable_after
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def paused_until(self, webhook: Webhook, *, tried: bool) -> datetime | None:
        """Until when a delivery waits; None for one that may be sent. Of all new ones when a pause is over, one may: that is the trial."""
        known = self._of(webhook.id)
        async with known.lock:
            for tries in range(_WRITES):
                await self._step_aside(tries)
                health = await self._fresh(webhook, known)
                until = changes.spared_until(health, self._clock.now(), tried=tried)
                if until is not None or tried or health.paused_until is None:
                    return until
                if await self._save(known, health, changes.tried(health, self._moment())):
                    return None
        return self._clock.now() + changes.FIRST_PAUSE

    async def spared_until(self, webhook: Webhook) -> datetime | None:
        """Until when an endpoint is being spared, as known `FRESH` ago at most; None where a new delivery may ask to be sent."""
        known = self._of(webhook.id)
        async with known.lock:
            return changes.spared_until(await self._fresh(webhook, known), self._clock.now(), tried=False)

    async def may_go(self, webhook: Webhook) -> bool:
        """Whether deliveries may go now that wait because the endpoint was being spared, and there may be any."""
        known = self._of(webhook.id)
        async with known.lock:
            return changes.may_go(await self._fresh(webhook, known))

    async def answered(self, webhook: Webhook, answer: Answer) -> bool:
        """Note what came of an attempt; where that ends the endpoint's time, disable it. Whether what was put off `may_go`."""
        if answer.failure is Failure.OURS:
            return False
        known = self._of(webhook.id)
        if not (changes.is_success(answer) and self._is_well(known)):
            await self._note(webhook, known, answer)
        return known.health is not None and changes.may_go(known.health)

    async def drained(self, webhook: Webhook) -> None:
        """Note that nothing waits any more of what was put off; not before all workers know that the endpoint is well."""
        known = self._of(webhook.id)
        async with known.lock:
            health = known.health
            if health is None or health.spared_at is None or self._clock.now() - health.spared_at < changes.SETTLED:
                return
            await self._save(known, health, changes.drained(health, self._moment()))

    async def _note(self, webhook: Webhook, known: _Known, answer: Answer) -> None:
        async with known.lock:
            for tries in range(_WRITES):
                await self._step_aside(tries)
                health = await self._fresh(webhook, known)
                if tries and self._is_noted(known, health, answer, tries):
                    return
                if changes.is_success(answer):
                    done = await self._save(known, health, changes.succeeded(health, self._moment()))
                else:
                    done = await self._failed(webhook, known, health, answer)
                if done:
                    return
        log.warning("what came of an attempt isn't noted: too many write at once", webhook=webhook.id)

    def _is_noted(self, known: _Known, health: EndpointHealth, answer: Answer, tries: int) -> bool:
        """Whether those who were faster have noted as much: that it is well, or that it is being spared, of many who would count on."""
        if changes.is_success(answer):
            return self._is_well(known)
        spared = changes.spared_until(health, self._clock.now(), tried=False) is not None
        return spared and tries >= _COUNTED and changes.is_strike(answer) and answer.retry_after is None

    async def _step_aside(self, tries: int) -> None:
        """Wait a little after a write that met another's, so that they don't go on meeting."""
        if tries:
            await asyncio.sleep(min(_STEP * 2.0**tries, _LONGEST_STEP) * self._chance.random())

    async def _failed(self, webhook: Webhook, known: _Known, health: EndpointHealth, answer: Answer) -> bool:
        moment = self._moment()
        after = changes.failed(health, answer, moment)
        reason = changes.limit(after, answer, moment.now, after=self._disable_after)
        if reason is None or webhook.disabled_at is not None:
            return await self._save(known, health, after)
        after = changes.disabled(after, moment, reason=reason, by=None)
        try:
            disabled = await self._endpoints.disable(webhook, health, after, reason=reason, now=moment.now)
        except HealthChangedError as changed:
            self._learn(known, changed.current)
            return False
        except NotFoundError:
            return True
        except UnavailableError as error:
            log.warning("a webhook can't be disabled now", webhook=webhook.id, error=str(error))
            self._learn(known, changes.failed(health, answer, moment))
            return True
        if disabled:
            self._learn(known, after)
            log.warning("webhook disabled", webhook=webhook.id, url=webhook.url, namespace=webhook.namespace, reason=reason)
        return True

    async def _save(self, known: _Known, before: EndpointHealth, after: EndpointHealth) -> bool:
        """Write a change; False where another was faster. What can't be written is known to this process at least."""
        try:
            await self._endpoints.write(before, after, self._clock.now())
        except HealthChangedError as changed:
            self._learn(known, changed.current)
            return False
        except UnavailableError as error:
            log.warning("how an endpoint fares can't be noted", webhook=after.webhook_id, error=str(error))
            after = after.model_copy(update={"stamp": before.stamp})
        self._learn(known, after)
        return True

    async def _fresh(self, webhook: Webhook, known: _Known) -> EndpointHealth:
        now = self._clock.now()
        if known.health is not None and known.read_at is not None and now - known.read_at < FRESH:
            return known.health
        try:
            self._learn(known, await self._endpoints.get(webhook.id))
        except UnavailableError as error:
            log.warning("how an endpoint fares can't be read", webhook=webhook.id, error=str(error))
            self._learn(known, known.health or EndpointHealth(webhook_id=webhook.id))
        assert known.health is not None
        return known.health

    def _learn(self, known: _Known, health: EndpointHealth) -> None:
        known.health, known.read_at = health, self._clock.now()

    def _is_well(self, known: _Known) -> bool:
        """Whether one success more says nothing new."""
        health = known.health
        if health is None or health.failures or health.paused_until is not None or health.last_success_at is None:
            return False
        return self._clock.now() - health.last_success_at < NOTED

    def _of(self, webhook_id: str) -> _Known:
        known = self._known.setdefault(webhook_id, _Known())
        self._known.move_to_end(webhook_id)
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)
        return known

    def _moment(self) -> Moment:
        return Moment(now=self._clock.now(), stamp=self._ids.nonce(), jitter=self._chance.random())

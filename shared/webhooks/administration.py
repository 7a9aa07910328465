"""What is done to a webhook that stands: enabled, disabled, given a new secret, tried, told again what it has missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.errors import ConflictError, UnavailableError
from shared.ids import Ids
from shared.jobs.change import Moment
from shared.secrets import Secrets
from shared.store.deliveries import Deliveries, DeliveryChangedError
from shared.store.endpoints import Endpoints, HealthChangedError
from shared.store.webhooks import Webhooks
from shared.webhooks import deliveries as changes_of_deliveries
from shared.webhooks import endpoints as changes
from shared.webhooks.deliveries import Delivery, DeliveryState
from shared.webhooks.endpoints import EndpointHealth
from shared.webhooks.model import Webhook
from shared.webhooks.registration import DESCRIPTION
from shared.webhooks.rotation import SecretRing

AT_ONCE: Final = 500
"""Deliveries that one call sends again; whoever wants more calls again."""
_PAGE: Final = 100
_WRITES: Final = 10

Change = Callable[[EndpointHealth, Moment], EndpointHealth]

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True, slots=True)
class Redelivery:
    """How many deliveries are sent again, and whether more have failed."""

    count: int
    more: bool


class Administration:
    """Changes webhooks. Every method may raise UnavailableError, and NotFoundError where the webhook is gone."""

    def __init__(
        self, *, webhooks: Webhooks, endpoints: Endpoints, deliveries: Deliveries, secrets: Secrets, clock: Clock, ids: Ids
    ) -> None:
        self._webhooks = webhooks
        self._endpoints = endpoints
        self._deliveries = deliveries
        self._secrets = secrets
        self._clock = clock
        self._ids = ids

    async def disable(self, webhook: Webhook, *, reason: str | None, by: str) -> None:
        """Send nothing more to it. What it is told of from now on fails, and can be sent again. Nothing happens where it is disabled."""
        text = reason or f"{by} wanted it so"
        for _ in range(_WRITES):
            moment = self._moment()
            before = await self._endpoints.get(webhook.id)
            after = changes.disabled(before, moment, reason=text, by=by)
            try:
                if await self._endpoints.disable(webhook, before, after, reason=text, now=moment.now):
                    log.info("webhook disabled", webhook=webhook.id, by=by, reason=reason)
                return
            except HealthChangedError:
                continue
        raise _busy(webhook)

    async def enable(self, webhook: Webhook, *, by: str) -> None:
        """Send to it again, what still waits for it first. Nothing happens where it is enabled."""
        for _ in range(_WRITES):
            moment = self._moment()
            before = await self._endpoints.get(webhook.id)
            try:
                if await self._endpoints.enable(webhook, before, changes.enabled(before, moment, by=by), now=moment.now):
                    log.info("webhook enabled", webhook=webhook.id, by=by)
                return
            except HealthChangedError:
                continue
        raise _busy(webhook)

    async def rotate(self, webhook: Webhook, *, secret: str, overlap: timedelta, by: str) -> Webhook:
        """Sign with a new secret, and for the time of `overlap` with those before it too. One without a secret gets its first.

        Raises ConflictError where another rotates at the same time. After an UnavailableError it may have been done or not; rotated again,
        it is signed by the new secret in any case, and by the one that its receiver has.
        """
        now = self._clock.now()
        if webhook.signed:
            value = await self._secrets.get(webhook.secret_name)
            ring = SecretRing.read(value).rotated(secret, now=now, overlap=overlap) if value is not None else SecretRing.of(secret)
            # The record first: of two who rotate at once, one is told so before anything is lost.
            rotated = await self._webhooks.rotate(webhook, now=now)
            await self._secrets.put(webhook.secret_name, ring.written(), description=DESCRIPTION)
        else:
            # The secret first: a record that says "signed" without one could send nothing.
            await self._secrets.put(webhook.secret_name, SecretRing.of(secret).written(), description=DESCRIPTION)
            rotated = await self._webhooks.rotate(webhook, now=now)
        await self._note(webhook, lambda health, moment: changes.rotated(health, moment, by=by))
        log.info("secret of a webhook rotated", webhook=webhook.id, by=by)
        return rotated

    async def redeliver(self, webhook: Webhook, delivery: Delivery) -> Delivery:
        """Send one delivery again, after what is on its way of earlier events of its job.

        Raises ConflictError for one still on its way, and where the webhook is disabled.
        """
        _require_enabled(webhook)
        told = await self._deliveries.of_job(webhook.id, delivery.job_id)
        behind = any(one.number < delivery.number and not one.state.final for one in told)
        try:
            return await self._deliveries.write(delivery, changes_of_deliveries.redelivered(delivery, self._moment(), behind=behind))
        except DeliveryChangedError as changed:
            raise ConflictError(f"Delivery {delivery.message_id} changed at the same time; look at it again") from changed

    async def redeliver_failed(self, webhook: Webhook, *, since: datetime | None) -> Redelivery:
        """Send again what has failed, of events since a time, those of the newest first; about so many in one call. Raises ConflictError.

        What has failed of one job is sent again together, its earliest event first, so that it comes in order wherever this breaks off.
        """
        _require_enabled(webhook)
        count, cursor = 0, None
        while True:
            page = await self._deliveries.page(webhook.id, limit=_PAGE, cursor=cursor, failed=True)
            wanted = [delivery for delivery in page.deliveries if since is None or delivery.at >= since]
            jobs = dict.fromkeys(delivery.job_id for delivery in wanted)
            count += sum(await asyncio.gather(*(self._again(webhook, job_id, since) for job_id in jobs)))
            cursor = page.cursor
            over = cursor is None or len(wanted) < len(page.deliveries)
            if over or count >= AT_ONCE:
                return Redelivery(count=count, more=not over)

    async def _again(self, webhook: Webhook, job_id: str, since: datetime | None) -> int:
        count, behind = 0, False
        for delivery in await self._deliveries.of_job(webhook.id, job_id):
            standing: Delivery | None = delivery
            if delivery.state is DeliveryState.FAILED and (since is None or delivery.at >= since):
                try:
                    again = changes_of_deliveries.redelivered(delivery, self._moment(), behind=behind)
                    standing = await self._deliveries.write(delivery, again)
                    count += 1
                except DeliveryChangedError as changed:
                    standing = changed.current
            behind = behind or (standing is not None and not standing.state.final)
        return count

    async def _note(self, webhook: Webhook, change: Change) -> None:
        """Add to a webhook's history; not worth a failure of what is told in it."""
        for _ in range(_WRITES):
            try:
                before = await self._endpoints.get(webhook.id)
                await self._endpoints.write(before, change(before, self._moment()), self._clock.now())
            except HealthChangedError:
                continue
            except UnavailableError as error:
                log.warning("the history of a webhook can't be written", webhook=webhook.id, error=str(error))
            return

    def _moment(self) -> Moment:
        return Moment(now=self._clock.now(), stamp=self._ids.nonce())


def _require_enabled(webhook: Webhook) -> None:
    if webhook.disabled_at is not None:
        raise ConflictError(f"Webhook '{webhook.id}' is disabled: {webhook.disabled_reason}; enable it first")


def _busy(webhook: Webhook) -> UnavailableError:
    return UnavailableError(f"how webhook {webhook.id} fares changed {_WRITES} times while it was to be changed")

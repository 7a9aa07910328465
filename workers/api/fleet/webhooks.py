"""Webhooks once they are registered: how they fare, what they were told, and what is done about it. The GCO door registers and deletes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from shared.errors import InvalidError, NotFoundError, Problem
from shared.identity.callers import Caller
from shared.ids import RandomIds, is_job_id
from shared.store.deliveries import Deliveries, DeliveryKey, key_of
from shared.store.endpoints import Endpoints
from shared.store.keys import Layout
from shared.webhooks import trying
from shared.webhooks.administration import Administration
from shared.webhooks.deliveries import Delivery, DeliveryState
from shared.webhooks.endpoints import is_success
from shared.webhooks.model import Webhook
from shared.webhooks.registration import secret_rule
from workers.about import cluster_id
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import CoreOf, Reader, Submitter
from workers.api.errors import answers
from workers.api.fleet.delivery_reasons import why_held
from workers.api.fleet.webhook_schemas import (
    DeliveriesAnswer,
    DeliveryAnswer,
    DeliverySummary,
    DisableRequest,
    HealthAnswer,
    RedeliveredAnswer,
    RedeliverRequest,
    RotatedAnswer,
    RotateRequest,
    TestAnswer,
    WebhookAnswer,
    WebhooksAnswer,
    WebhookSummary,
)

Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(max_length=2048)]
_PAGES = 10
"""Pages that are read for one that is asked for by a state that has no index."""

router = APIRouter(prefix="/webhooks", tags=["Fleet: webhooks"], route_class=StrictRoute)


@router.get("", responses=answers(401, 403, 422, 429, 503))
async def list_webhooks_with_states(
    core: CoreOf, caller: Reader, namespace: str | None = None, limit: Limit = 100, cursor: Cursor = None
) -> WebhooksAnswer:
    """Webhooks, newest first: those of a namespace, or all that the caller may see."""
    namespaces: Sequence[str] | None = None
    if namespace is not None:
        caller.require_namespace(namespace)
        namespaces = [namespace]
    elif caller.namespaces is not None:
        namespaces = sorted(caller.namespaces)
    page = await core.webhooks.page(limit=limit, cursor=cursor, namespaces=namespaces)
    return WebhooksAnswer(webhooks=[WebhookSummary.of(webhook) for webhook in page.webhooks], next_cursor=page.cursor)


@router.get("/{webhook_id}", responses=answers(401, 403, 404, 422, 429, 503))
async def get_webhook(webhook_id: str, core: CoreOf, caller: Reader) -> WebhookAnswer:
    """A webhook, how its endpoint fares, and what was done to it."""
    return await _told(core, await _webhook(core, caller, webhook_id))


@router.post("/{webhook_id}/enable", responses=answers(401, 403, 404, 422, 429, 503))
async def enable_webhook(webhook_id: str, core: CoreOf, caller: Submitter) -> WebhookAnswer:
    """Tell it of events again. What has failed meanwhile is sent again on request only."""
    webhook = await _webhook(core, caller, webhook_id)
    await _administration(core).enable(webhook, by=caller.name)
    return await _told(core, await _webhook(core, caller, webhook_id))


@router.post("/{webhook_id}/disable", responses=answers(401, 403, 404, 413, 422, 429, 503))
async def disable_webhook(webhook_id: str, body: DisableRequest, core: CoreOf, caller: Submitter) -> WebhookAnswer:
    """Send it nothing more. What it would have been told of is kept as failed deliveries, for 30 days."""
    webhook = await _webhook(core, caller, webhook_id)
    await _administration(core).disable(webhook, reason=body.reason, by=caller.name)
    return await _told(core, await _webhook(core, caller, webhook_id))


@router.post("/{webhook_id}/rotate", responses=answers(401, 403, 404, 409, 413, 422, 429, 503))
async def rotate_secret(webhook_id: str, body: RotateRequest, core: CoreOf, caller: Submitter) -> RotatedAnswer:
    """Give it a new secret. The one before goes on signing too for a while, a day unless said otherwise."""
    if body.secret is not None and (rule := secret_rule(body.secret)) is not None:
        raise InvalidError([Problem(pointer="/secret", value=None, rule=rule)])
    from shared.webhooks.signing import new_secret

    webhook = await _webhook(core, caller, webhook_id)
    secret = body.secret or new_secret()
    overlap = timedelta(seconds=body.overlap_seconds)
    rotated = await _administration(core).rotate(webhook, secret=secret, overlap=overlap, by=caller.name)
    return RotatedAnswer(
        webhook=WebhookSummary.of(rotated),
        secret=None if body.secret is not None else secret,
        overlap_until=rotated.rotated_at + overlap if webhook.signed and overlap and rotated.rotated_at else None,
    )


@router.post("/{webhook_id}/test", responses=answers(401, 403, 404, 422, 429, 503))
async def test_webhook(webhook_id: str, core: CoreOf, caller: Submitter) -> TestAnswer:
    """Send it a `webhook.test` now, signed as all messages are, and tell what it answers. Works for one that is disabled too."""
    from shared.webhooks.rotation import SigningSecrets
    from shared.webhooks.sending import HttpSender  # the HTTP client, which no other operation needs

    webhook = await _webhook(core, caller, webhook_id)
    message = trying.sample(webhook, now=core.clock.now(), nonce=RandomIds().nonce(), cluster=cluster_id(core.region), region=core.region)
    sender = HttpSender(rules=core.webhook_urls, secrets=SigningSecrets(core.secrets, core.clock), clock=core.clock)
    answer = await sender.send(webhook, message)
    return TestAnswer(
        message_id=message.id,
        delivered=is_success(answer),
        status=answer.status,
        failure=answer.failure,
        text=answer.text,
        latency_ms=answer.latency,
        signed=webhook.signed,
    )


@router.get("/{webhook_id}/deliveries", responses=answers(401, 403, 404, 422, 429, 503))
async def list_deliveries(
    webhook_id: str, core: CoreOf, caller: Reader, state: DeliveryState | None = None, limit: Limit = 100, cursor: Cursor = None
) -> DeliveriesAnswer:
    """What it was told, or is to be told, those of the newest events first.

    Of deliveries in a state other than `failed`, a page may have fewer than there is room for, while `next_cursor` is not null.
    """
    await _webhook(core, caller, webhook_id)
    deliveries = _deliveries(core)
    found: list[Delivery] = []
    read: list[Delivery] = []
    for _ in range(_PAGES):
        page = await deliveries.page(webhook_id, limit=limit - len(found), cursor=cursor, failed=state is DeliveryState.FAILED)
        read += page.deliveries
        found += [delivery for delivery in page.deliveries if state is None or delivery.state is state]
        cursor = page.cursor
        if cursor is None or len(found) == limit:
            break
    held = await why_held(deliveries, found, read=read)
    return DeliveriesAnswer(deliveries=[DeliverySummary.of(one, held.get(key_of(one))) for one in found], next_cursor=cursor)


@router.get("/{webhook_id}/deliveries/{job_id}/{number}", responses=answers(401, 403, 404, 422, 429, 503))
async def get_delivery(webhook_id: str, job_id: str, number: int, core: CoreOf, caller: Reader) -> DeliveryAnswer:
    """One delivery with its latest attempts."""
    await _webhook(core, caller, webhook_id)
    return await _shown(core, await _delivery(core, webhook_id, job_id, number))


@router.post("/{webhook_id}/deliveries/{job_id}/{number}/redeliver", responses=answers(401, 403, 404, 409, 422, 429, 503))
async def redeliver_one(webhook_id: str, job_id: str, number: int, core: CoreOf, caller: Submitter) -> DeliveryAnswer:
    """Send one delivery again, whether it has failed or was delivered, under the same id; it is tried for another 24 hours."""
    webhook = await _webhook(core, caller, webhook_id)
    delivery = await _delivery(core, webhook_id, job_id, number)
    return await _shown(core, await _administration(core).redeliver(webhook, delivery))


@router.post("/{webhook_id}/redeliver", responses=answers(401, 403, 404, 409, 413, 422, 429, 503))
async def redeliver_failed(webhook_id: str, body: RedeliverRequest, core: CoreOf, caller: Submitter) -> RedeliveredAnswer:
    """Send again what has failed, the newest first; some hundreds in one call."""
    webhook = await _webhook(core, caller, webhook_id)
    done = await _administration(core).redeliver_failed(webhook, since=body.since)
    return RedeliveredAnswer(count=done.count, more=done.more)


async def _webhook(core: Core, caller: Caller, webhook_id: str) -> Webhook:
    """Raises NotFoundError, ForbiddenError for one of a namespace that isn't the caller's, be it still allowed or not."""
    entry = await core.webhooks.entry(webhook_id)
    if entry.namespace is not None:
        caller.require_namespace(entry.namespace)
    else:
        caller.require_all_namespaces("a webhook without a namespace")
    return await core.webhooks.get(entry)


async def _delivery(core: Core, webhook_id: str, job_id: str, number: int) -> Delivery:
    """Raises NotFoundError."""
    deliveries = _deliveries(core)
    if not is_job_id(job_id) or not 0 < number < 10**8:
        raise NotFoundError("Delivery", f"{job_id}#{number}")
    return await deliveries.get(DeliveryKey(webhook_id, job_id, number))


async def _shown(core: Core, delivery: Delivery) -> DeliveryAnswer:
    held = await why_held(_deliveries(core), [delivery])
    return DeliveryAnswer.of(delivery, held.get(key_of(delivery)))


async def _told(core: Core, webhook: Webhook) -> WebhookAnswer:
    health = await Endpoints(core.table).get(webhook.id)
    return WebhookAnswer(**WebhookSummary.of(webhook).model_dump(), health=HealthAnswer.of(health), history=list(health.history))


def _deliveries(core: Core) -> Deliveries:
    return Deliveries(core.table, Layout.of(core.settings))


def _administration(core: Core) -> Administration:
    return Administration(
        webhooks=core.webhooks,
        endpoints=Endpoints(core.table),
        deliveries=_deliveries(core),
        secrets=core.secrets,
        clock=core.clock,
        ids=RandomIds(),
    )

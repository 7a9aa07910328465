"""An endpoint that is sick beside one that is well: spared, disabled at its limit, enabled and told again what it has missed."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta

import pytest

from shared.clock import SystemClock
from shared.ids import RandomIds
from shared.secrets import Secrets
from shared.store.endpoints import Endpoints
from shared.webhooks import deliveries as changes
from shared.webhooks import endpoints as health_changes
from shared.webhooks.administration import Administration
from shared.webhooks.deliveries import DeliveryState
from shared.webhooks.health import TableHealth
from shared.webhooks.lanes import Lanes
from shared.webhooks.rotation import SigningSecrets
from shared.webhooks.sending import HttpSender
from shared.webhooks.urls import UrlRules
from tests.integration.webhooks.fleet import events_of, ids, until
from tests.unit.webhooks.receivers import answering

JOBS = 40


@pytest.fixture
def short_waits(monkeypatch):
    """Retries and pauses of tenths of a second."""
    monkeypatch.setattr(changes, "FIRST_RETRY", timedelta(seconds=0.1))
    monkeypatch.setattr(changes, "LAST_RETRY", timedelta(seconds=0.2))
    monkeypatch.setattr(changes, "SHORTEST_RETRY", timedelta(seconds=0.05))
    monkeypatch.setattr(health_changes, "FIRST_PAUSE", timedelta(seconds=0.2))
    monkeypatch.setattr(health_changes, "LAST_PAUSE", timedelta(seconds=0.3))
    monkeypatch.setattr("shared.webhooks.sweeping.BACKLOG", timedelta(seconds=0.1))
    monkeypatch.setattr("shared.webhooks.waiting.APART", timedelta(seconds=0.01))
    monkeypatch.setattr("workers.webhooks.sweep_loop.MIN_SECONDS", 0.02)


def administration(fleet):
    return Administration(
        webhooks=fleet.webhooks,
        endpoints=Endpoints(fleet.table),
        deliveries=fleet.deliveries,
        secrets=Secrets(fleet.aws.secretsmanager, prefix=fleet.core.settings.table),
        clock=SystemClock(),
        ids=RandomIds(),
    )


def health(fleet, **options):
    return TableHealth(endpoints=Endpoints(fleet.table), clock=SystemClock(), ids=RandomIds(), chance=random.Random(1), **options)


async def current(fleet, webhook):
    return (await fleet.webhooks.many([webhook.id]))[webhook.id]


async def disabled(fleet, webhook):
    async def found():
        standing = await current(fleet, webhook)
        return standing if standing.disabled_at is not None else None

    return await until(found)


async def test_one_that_fails_is_spared_disabled_and_made_well_again(fleet, short_waits):
    """Case 22."""
    broken = [True]

    async def respond(request, writer):
        await answering("500 Broken" if broken[0] else "200 OK")(request, writer)

    sick_receiver, well_receiver = await fleet.receiver(respond), await fleet.receiver()
    sick = await fleet.subscribe(sick_receiver, events=("job.queued",))
    await fleet.subscribe(well_receiver, events=("job.queued",))
    await fleet.worker(health=health(fleet, disable_after=timedelta(seconds=1)))

    heads = await asyncio.gather(*(fleet.job() for _ in range(JOBS)))
    wanted = {f"{head.id}#1" for head in heads}

    async def well():
        return ids(well_receiver).keys() == wanted

    await until(well)
    found = await disabled(fleet, sick)
    assert "attempts since" in found.disabled_reason
    assert len(ids(sick_receiver)) < JOBS  # it was spared: not even one attempt for each
    (event,) = (await Endpoints(fleet.table).get(sick.id)).history
    assert (event.change, event.reason) == ("disabled", found.disabled_reason)
    assert all(one.state is DeliveryState.FAILED for one in await fleet.until_settled(sick, JOBS))

    broken[0] = False
    had = len(sick_receiver.received)
    office = administration(fleet)
    await office.enable(found, by="ann")
    assert (await office.redeliver_failed(await current(fleet, sick), since=None)).count == JOBS
    states = {one.state for one in await fleet.until_settled(sick, JOBS)}
    assert states == {DeliveryState.DELIVERED}
    assert {one.headers["webhook-id"] for one in sick_receiver.received[had:]} == wanted
    assert all(count == 1 for count in ids(well_receiver).values())


async def test_one_that_hangs_costs_a_few_attempts_and_delays_nobody(fleet):
    secrets = SigningSecrets(Secrets(fleet.aws.secretsmanager, prefix=fleet.core.settings.table), SystemClock())
    impatient = HttpSender(rules=UrlRules(local=True), secrets=secrets, clock=SystemClock(), seconds=1.0)
    hanging, well_receiver = await fleet.silent(), await fleet.receiver()
    webhook = await fleet.subscribe(hanging, events=("job.queued",))
    await fleet.subscribe(well_receiver, events=("job.queued",))
    await fleet.worker(sender=impatient, lanes=Lanes(each=4, total=8))

    await asyncio.gather(*(fleet.job() for _ in range(JOBS)))

    async def well():
        return len(ids(well_receiver)) == JOBS

    await until(well)

    async def spared():
        return (await Endpoints(fleet.table).get(webhook.id)).paused_until

    await until(spared)
    assert hanging.connections < JOBS / 2


async def test_what_hangs_for_good_and_what_fails_hold_up_nothing_of_another(fleet):
    """Case 22. No attempt at the one that hangs ends while the test runs: whatever shares its lane would never be sent."""
    secrets = SigningSecrets(Secrets(fleet.aws.secretsmanager, prefix=fleet.core.settings.table), SystemClock())
    patient = HttpSender(rules=UrlRules(local=True), secrets=secrets, clock=SystemClock(), seconds=600.0)
    hanging, broken, well_receiver = await fleet.silent(), await fleet.receiver(answering("500 Broken")), await fleet.receiver()
    for receiver in (hanging, broken, well_receiver):
        await fleet.subscribe(receiver, events=("job.queued", "job.completed"))
    await fleet.worker(sender=patient, lanes=Lanes(each=4, total=16))

    heads = await asyncio.gather(*(fleet.ran() for _ in range(JOBS)))

    await until(lambda: len(ids(well_receiver)) == 2 * JOBS)
    assert 0 < hanging.connections <= 4
    for head in heads:
        assert events_of(well_receiver, head.id) == ["job.queued", "job.completed"]


async def test_one_that_is_gone_is_told_nothing_more(fleet):
    gone = await fleet.receiver(answering("410 Gone"))
    webhook = await fleet.subscribe(gone, events=("job.queued",))
    await fleet.worker()

    await fleet.job()
    found = await disabled(fleet, webhook)
    had = len(gone.received)
    later = await fleet.job()
    deliveries = await fleet.until_settled(webhook, 2)

    assert found.disabled_reason == "it answered 410 (Gone)"
    assert len(gone.received) == had == 1
    [missed] = [one for one in deliveries if one.job_id == later.id]
    assert (missed.state, missed.attempts, missed.reason) == (DeliveryState.FAILED, 0, "the webhook is disabled: it answered 410 (Gone)")


async def test_what_waits_while_one_is_disabled_for_a_moment_goes_on(fleet, short_waits):
    broken = [True]

    async def respond(request, writer):
        await answering("503 Busy" if broken[0] else "200 OK")(request, writer)

    receiver = await fleet.receiver(respond)
    webhook = await fleet.subscribe(receiver, events=("job.queued",))
    head = await fleet.job()
    worker = await fleet.worker()

    async def tried():
        return receiver.received

    await until(tried)
    await worker.stop()
    office = administration(fleet)
    await office.disable(await current(fleet, webhook), reason=None, by="ann")
    await office.enable(await current(fleet, webhook), by="ann")
    broken[0] = False
    await fleet.worker()

    (delivery,) = await fleet.until_settled(webhook, 1)
    assert (delivery.state, delivery.message_id) == (DeliveryState.DELIVERED, f"{head.id}#1")

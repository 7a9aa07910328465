"""How endpoints fare, over the table: several workers that share it, the breaker, the end of an endpoint's time."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import NotFoundError, UnavailableError
from shared.ids import RandomIds
from shared.jobs.change import Moment
from shared.store.endpoints import Endpoints
from shared.store.table import Table
from shared.store.webhooks import Webhooks
from shared.webhooks import endpoints as changes
from shared.webhooks.endpoints import FIRST_PAUSE, STRIKES, TRIAL
from shared.webhooks.health import FRESH, NOTED, TableHealth
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Answer, Failure

HOUR = timedelta(hours=1)
TAKEN = Answer(status=200)
BROKEN = Answer(status=500)


class Watch:
    """A clock that is set by hand."""

    def __init__(self):
        self.time = datetime(2026, 1, 2, tzinfo=UTC)

    def now(self):
        return self.time


class Counting(Table):
    """A table that counts its requests, and can be out of reach."""

    def __init__(self, client, name):
        super().__init__(client, name)
        self.calls = []
        self.away = False

    async def _send(self, operation, **request):
        self.calls.append(operation)
        if self.away:
            raise UnavailableError("not now")
        return await super()._send(operation, **request)


@pytest.fixture
def watch():
    return Watch()


@pytest.fixture
def table(aws, shared_settings):
    return Counting(aws.dynamodb, shared_settings.table)


@pytest.fixture
async def webhook(table, watch):
    made = Webhook(
        id=RandomIds().job(),
        url="https://x.example",
        events=("job.failed",),
        namespace=RandomIds().nonce(),
        created_at=watch.now(),
        created_by="ann",
    )
    await Webhooks(table).create(made)
    table.calls.clear()
    return made


@pytest.fixture
def worker(table, watch):
    """Makes workers that share the table and nothing else."""
    return lambda **options: TableHealth(endpoints=Endpoints(table), clock=watch, ids=RandomIds(), chance=random.Random(1), **options)


async def fail(health, webhook, times, answer=BROKEN):
    for _ in range(times):
        await health.answered(webhook, answer)


async def stored(table, webhook):
    return await Endpoints(table).get(webhook.id)


async def record(table, webhook):
    return (await Webhooks(table).many([webhook.id]))[webhook.id]


async def test_an_endpoint_that_is_well_costs_next_to_nothing(worker, webhook, table, watch):
    health = worker()
    for _ in range(100):
        assert await health.paused_until(webhook, tried=False) is None
        await health.answered(webhook, TAKEN)
    assert table.calls == ["get_item", "put_item"]

    watch.time += NOTED
    await health.answered(webhook, TAKEN)
    assert (await stored(table, webhook)).last_success_at == watch.now()


async def test_a_dead_endpoint_is_spared_by_every_worker_and_tried_by_one(worker, webhook, watch):
    first, others = worker(), [worker() for _ in range(5)]
    await fail(first, webhook, STRIKES)
    until = await first.paused_until(webhook, tried=False)

    assert until > watch.now()
    assert [await other.paused_until(webhook, tried=False) for other in others] == [until] * 5

    watch.time = until
    asked = await asyncio.gather(*(one.paused_until(webhook, tried=False) for one in (first, *others) for _ in range(10)))
    assert asked.count(None) == 1
    assert set(asked) == {None, until + FIRST_PAUSE}  # a trial tells more soon


async def test_a_trial_whose_worker_died_is_made_by_another(worker, webhook, watch):
    first, second = worker(), worker()
    await fail(first, webhook, STRIKES)
    watch.time = await first.paused_until(webhook, tried=False)
    assert await first.paused_until(webhook, tried=False) is None

    assert await second.paused_until(webhook, tried=False) == watch.now() + FIRST_PAUSE
    watch.time += TRIAL
    assert await second.paused_until(webhook, tried=False) is None


async def test_a_trial_that_succeeds_opens_the_endpoint_for_all(worker, webhook, watch):
    first, second = worker(), worker()
    await fail(first, webhook, STRIKES)
    watch.time = await second.paused_until(webhook, tried=False)
    assert await second.paused_until(webhook, tried=False) is None
    await second.answered(webhook, TAKEN)

    assert await second.paused_until(webhook, tried=False) is None
    watch.time += FRESH
    assert await first.paused_until(webhook, tried=False) is None


async def test_failures_of_several_workers_add_up(worker, webhook, table):
    workers = [worker() for _ in range(4)]
    await asyncio.gather(*(fail(one, webhook, 5, Answer(status=404)) for one in workers))

    assert (await stored(table, webhook)).failures == 20


async def test_of_many_that_fail_at_once_so_many_are_noted_as_spare_the_endpoint(worker, webhook, table, watch):
    """The rest says nothing new, and would only wait for one another."""
    workers = [worker() for _ in range(30)]
    await asyncio.gather(*(fail(one, webhook, 1) for one in workers))

    found = await stored(table, webhook)
    assert STRIKES <= found.failures <= 30
    assert found.paused_until == await worker().paused_until(webhook, tried=False) > watch.now()


async def test_a_fault_of_ours_says_nothing_of_the_endpoint(worker, webhook, table):
    await fail(worker(), webhook, 50, Answer(failure=Failure.OURS, text="its secret can't be read"))

    assert (await stored(table, webhook)).failures == 0


async def test_an_endpoint_that_is_gone_is_disabled_at_once(worker, webhook, table, watch, capfd):
    health = worker()
    await health.answered(webhook, Answer(status=410))

    found = await record(table, webhook)
    assert (found.disabled_at, found.disabled_reason) == (watch.now(), "it answered 410 (Gone)")
    [event] = (await stored(table, webhook)).history
    assert (event.change, event.at, event.reason, event.by) == ("disabled", watch.now(), "it answered 410 (Gone)", None)
    assert await health.paused_until(webhook, tried=False) == watch.now() + FIRST_PAUSE  # what waits in memory is not sent


@pytest.mark.parametrize("answer", [BROKEN, Answer(status=404), Answer(failure=Failure.TLS, text="its certificate is not valid")])
async def test_after_its_limit_an_endpoint_is_disabled_once(worker, webhook, table, watch, answer):
    workers = [worker(disable_after=HOUR) for _ in range(3)]
    for _ in range(11):
        await asyncio.gather(*(one.answered(webhook, answer) for one in workers))
        watch.time += HOUR / 9

    found = await record(table, webhook)
    assert found.disabled_at is not None
    assert "attempts since 2026-01-02 00:00 UTC was taken" in found.disabled_reason
    assert len((await stored(table, webhook)).history) == 1


async def test_one_success_in_between_keeps_it(worker, webhook, table, watch):
    health = worker(disable_after=HOUR)
    for number in range(60):
        await health.answered(webhook, TAKEN if number % 20 == 19 else BROKEN)
        watch.time += HOUR / 25

    assert (await record(table, webhook)).disabled_at is None


async def test_enabled_again_it_begins_anew(worker, webhook, table, watch):
    await worker().answered(webhook, Answer(status=410))
    before, disabled = await stored(table, webhook), await record(table, webhook)
    after = changes.enabled(before, Moment(now=watch.now(), stamp="s"), by="ann")

    assert await Endpoints(table).enable(disabled, before, after, now=watch.now()) is True
    assert (await record(table, webhook)) == webhook
    assert await worker().paused_until(webhook, tried=False) is None
    assert await Endpoints(table).enable(webhook, after, after.model_copy(update={"stamp": "t"}), now=watch.now()) is False


async def test_without_the_table_a_worker_goes_by_what_it_sees(worker, webhook, table, watch):
    health = worker()
    table.away = True
    assert await health.paused_until(webhook, tried=False) is None
    await fail(health, webhook, STRIKES)
    until = await health.paused_until(webhook, tried=False)
    assert until > watch.now()
    watch.time = until
    assert [await health.paused_until(webhook, tried=False) for _ in range(2)] == [None, until + FIRST_PAUSE]

    await health.answered(webhook, Answer(status=410))
    table.away = False
    await health.answered(webhook, Answer(status=410))
    assert (await record(table, webhook)).disabled_at == watch.now()


async def test_a_webhook_that_was_deleted_leaves_nothing(worker, webhook, table):
    health, webhooks = worker(), Webhooks(table)
    await fail(health, webhook, 3)
    await webhooks.remove(await webhooks.entry(webhook.id))

    assert (await stored(table, webhook)).failures == 0
    await health.answered(webhook, Answer(status=410))
    with pytest.raises(NotFoundError):
        await webhooks.entry(webhook.id)

"""What events tell of a job's cost, by real loops over the wire: it is what the report says when it is written later."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.costs.model import RowKind, Window, exact_sum
from shared.costs.rounding import QUANTUM
from shared.costs.sources import region_prices
from shared.costs.usage_reader import UsageReader
from shared.errors import UnavailableError
from shared.jobs.model import EventType, RetryPolicy
from shared.jobs.spending import so_far
from shared.jobs.states import State
from tests.integration.region import REGION, job, running_region
from workers.costing import costing
from workers.dispatcher.build import build as build_dispatcher
from workers.observer.usage import usage_account

MINUTES = timedelta(minutes=5)
ROUNDING = QUANTUM * 10
"""Each part of a row is within 1e-9 of what it is exactly."""


@pytest.fixture
async def region(fleet_resources, tmp_path):
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({REGION: {"g5.12xlarge": "3.6"}}))
    async with running_region(fleet_resources, tmp_path, usage_write_seconds=1, spot_prices_file=prices) as found:
        yield found


async def cost_in_report(region, job_id, executions):
    """What the rows of a job add up to in a report of the last minutes, once an observer has told of all of them."""
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    costs = costing(region.settings, region.aws)
    async with asyncio.timeout(30):
        while True:
            usage = await UsageReader(objects=region.core.objects, clock=region.core.clock).usage(REGION, Window(end - MINUTES, end))
            if usage.final:
                break
            await asyncio.sleep(0.1)
    keys, _ = await costs.reporter(REGION).adhoc(Window(end - MINUTES, end))
    account = await costs.store.account(keys)
    rows = [row for row in account.rows if row.kind is RowKind.JOB and row.job_id == job_id]
    assert {row.execution for row in rows} == executions
    return exact_sum(row.total_cost for row in rows)


async def of(region, job_id, kind):
    return [event for event in await region.events(job_id) if event.type is kind]


async def test_a_job_of_two_attempts_costs_what_both_have(region):
    await region.dispatcher()
    await region.observer(region.usage_account())
    retry = RetryPolicy(max_attempts=2, backoff_seconds=0)
    head = await region.submit(manifest=job(duration=2, exit_code="1,0"), retry=retry)
    head = await region.until(head.id, State.SUCCEEDED)

    (failed,), (done,) = await of(region, head.id, EventType.RETRY), await of(region, head.id, EventType.SUCCEEDED)
    first, second = [event.cost for event in await of(region, head.id, EventType.RUNNING)]
    assert None not in (failed.cost.usd, done.cost.usd)
    assert 0 <= first.usd < failed.cost.usd <= second.usd < done.cost.usd
    assert so_far(head) == head.spent == done.cost
    assert abs(await cost_in_report(region, head.id, {1, 2}) - done.cost.usd) <= ROUNDING


async def test_a_job_that_is_cancelled_costs_what_it_had_used(region):
    await region.dispatcher()
    await region.observer(region.usage_account())
    head = await region.submit(manifest=job(hang="true"))
    await region.until(head.id, State.RUNNING)
    until = region.core.clock.now() + timedelta(seconds=2)  # times of a cluster are whole seconds
    await region.until_true(lambda: region.core.clock.now() > until)
    await region.cancel(head.id)
    head = await region.until(head.id, State.CANCELLED)

    (event,) = await of(region, head.id, EventType.CANCELLED)
    assert event.cost.usd > 0
    assert abs(await cost_in_report(region, head.id, {1}) - event.cost.usd) <= ROUNDING


class At:
    """A clock that stands."""

    def __init__(self, moment):
        self._moment = moment

    def now(self):
        return self._moment


async def test_who_knows_no_cost_leaves_the_end_to_who_does_for_a_while(region):
    dispatcher, observer = await region.dispatcher(), await region.observer(region.usage_account())
    head = await region.submit(manifest=job(hang="true"))
    await region.until(head.id, State.RUNNING)
    await observer.kill()
    await region.cancel(head.id)
    async with asyncio.timeout(20):
        while await region.objects():
            await asyncio.sleep(0.05)
    await dispatcher.kill()

    async def answer(core):
        loop = await build_dispatcher(core, region.aws.sqs, region.api, region=REGION, owner="d2")
        await loop._stopping.answer(head.id)
        return await region.head(head.id)

    asked = (await region.head(head.id)).stop.requested_at
    with pytest.raises(UnavailableError, match="left to the observer") as left:
        await answer(replace(region.core, clock=At(asked + timedelta(seconds=2))))
    assert left.value.retry_after == 3.0
    ended = await answer(replace(region.core, clock=At(asked + timedelta(seconds=5))))

    assert ended.state is State.CANCELLED
    assert ended.spent.missing == "what execution 1 used was not known when it ended"


async def test_what_interruptions_cost_is_known_of_every_one(region):
    await region.dispatcher()
    await region.observer(region.usage_account())
    await region.sweeper()
    heads = [await region.submit(manifest=job(f"spot-{number}", duration=2, interrupt_after="1")) for number in range(8)]
    ended = [await region.until(head.id, State.SUCCEEDED) for head in heads]

    assert {head.interruptions for head in ended} == {1}
    assert [head.spent.missing for head in ended] == [None] * len(ended)


async def test_an_observer_that_came_late_knows_by_the_pods_that_are_left(region):
    await region.dispatcher()
    early = await region.observer(region.usage_account())
    head = await region.submit(manifest=job(duration=3))
    await region.until(head.id, State.RUNNING)
    await early.kill()
    await region.observer(region.usage_account())
    head = await region.until(head.id, State.SUCCEEDED)

    assert head.spent.usd > 0
    assert abs(await cost_in_report(region, head.id, {1}) - head.spent.usd) <= ROUNDING


class Slow:
    """A source that takes its time."""

    def __init__(self, source):
        self._source = source

    async def rates(self, machine, window):
        await asyncio.sleep(0.3)
        return await self._source.rates(machine, window)


async def test_an_end_that_nobody_saw_is_told_with_its_cost_once_an_observer_knows_nodes_and_prices(region):
    await region.dispatcher()
    early = await region.observer(region.usage_account())
    head = await region.submit(manifest=job(duration=1.5))
    await region.until(head.id, State.RUNNING)
    await early.kill()
    async with asyncio.timeout(20):
        while not (await region.objects())[0]["status"].get("succeeded"):
            await asyncio.sleep(0.05)
    slow = Slow(region_prices(region.settings, region.aws, REGION, region.core.clock))
    await region.observer(usage_account(region.core, region.api, slow, region=REGION))
    head = await region.until(head.id, State.SUCCEEDED)

    assert head.spent.usd > 0
    assert abs(await cost_in_report(region, head.id, {1}) - head.spent.usd) <= ROUNDING


async def test_an_observer_that_never_saw_a_pod_does_not_know_its_cost(region):
    await region.dispatcher()
    early = await region.observer(region.usage_account())
    head = await region.submit(manifest=job(hang="true"))
    await region.until(head.id, State.RUNNING)
    await early.kill()
    for pod in (await region.api.request("GET", "/api/v1/pods"))["items"]:
        await region.api.request("DELETE", f"/api/v1/namespaces/gco-jobs/pods/{pod['metadata']['name']}")
    async with asyncio.timeout(20):
        while not (await region.objects())[0]["status"].get("failed"):
            await asyncio.sleep(0.05)
    await region.observer(region.usage_account())
    head = await region.until(head.id, State.FAILED)

    assert (head.spent.usd, head.spent.missing) == (None, "execution 1 was not watched from its beginning")


async def test_a_price_that_is_not_known_is_told_and_no_job_is_held_up(region, tmp_path):
    (tmp_path / "prices.json").write_text("{}")
    await region.dispatcher()
    await region.observer(region.usage_account())
    manifest = job(duration=1.5)
    pod = manifest["spec"]["template"]["spec"]
    pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1
    pod["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    head = await region.submit(manifest=manifest)
    head = await region.until(head.id, State.SUCCEEDED)

    assert (head.spent.usd, head.spent.missing) == (None, "no price of g5.12xlarge (spot) in us-east-1 is known")


async def test_without_an_account_of_usage_an_end_says_that_its_cost_is_not_known(region):
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job())
    head = await region.until(head.id, State.SUCCEEDED)

    assert (head.spent.usd, head.spent.known_usd) == (None, Decimal(0))
    assert head.spent.missing == "what execution 1 used was not known when it ended"

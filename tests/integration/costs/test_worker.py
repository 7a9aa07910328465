"""The cost worker as it runs: its loop, its Lambda handler, messages of the queue; over the ledger of an observer."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from shared.costs.model import IDLE, Window, exact_sum
from shared.costs.report_keys import ReportKeys
from shared.costs.usage_documents import UsageDocument, document_key, encode, hour_of
from shared.errors import NotFoundError, UnavailableError
from shared.queues.queue import Queue
from shared.settings import dead_letter_queue
from tests.conftest import FleetResources
from tests.integration.costs.conftest import Costs, Hands
from tests.unit.costs.builders import REGION, at, node, pod
from workers.costs.build import build
from workers.costs.handler import answer
from workers.costs.loop import CostLoop
from workers.costs.work import CostWork

HOUR = timedelta(hours=1)


@dataclass
class Fleet:
    """A fleet whose observer's ledger a test writes."""

    resources: FleetResources
    costs: Costs
    clock: Hands

    async def work(self) -> CostWork:
        return await build(self.resources.settings, self.resources.aws, clock=self.clock)

    async def queue(self) -> Queue:
        return await Queue.open(self.resources.aws.sqs, self.resources.settings.tasks_queue)

    async def dead(self) -> Queue:
        return await Queue.open(self.resources.aws.sqs, dead_letter_queue(self.resources.settings.tasks_queue))

    async def ledger(self, *hours: datetime, until: datetime | None = None, nodes=(), pods=(), observer: str = "o1") -> None:
        """An observer's documents of some hours, each of the whole hour or up to a time."""
        for hour in hours:
            end = min(hour + HOUR, until or hour + HOUR)
            document = UsageDocument(
                version=1,
                region=REGION,
                cluster=REGION,
                observer=observer,
                hour=hour_of(hour),
                all_pods=True,
                covered=[Window(hour, end)],
                nodes=[one for one in nodes if one.start < end],
                pods=[one for one in pods if one.start < end],
            )
            await self.costs.objects.put(document_key(document), encode(document))

    async def reported(self) -> list[Window]:
        found = await self.costs.store.newest(REGION, adhoc=False, limit=1000)
        return sorted(keys.window for keys, _ in found)

    async def rows(self, window: Window):
        account = await self.costs.store.account(ReportKeys.scheduled(REGION, window))
        assert exact_sum(row.total_cost for row in account.rows) == account.basis.node_cost
        return {row.namespace: row for row in await self.costs.store.rows(ReportKeys.scheduled(REGION, window))}


@pytest.fixture
def fleet(fleet_resources, costs, tmp_path) -> Fleet:
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps({REGION: {}}))
    settings = fleet_resources.settings.model_copy(update={"regions": (REGION,), "spot_prices_file": prices})
    resources = FleetResources(settings=settings, aws=fleet_resources.aws, endpoint=fleet_resources.endpoint)
    return Fleet(resources=resources, costs=costs, clock=Hands(at("12:00")))


def hour(text: str, day: int = 17) -> Window:
    return Window(at(text, day), at(text, day) + HOUR)


@asynccontextmanager
async def running(fleet: Fleet, **options):
    """The loop, stopped at the end as a worker is."""
    stop = asyncio.Event()
    loop = CostLoop(work=await fleet.work(), queue=await fleet.queue(), regions=[REGION], grace_seconds=10, tick_seconds=0.05, **options)
    task = asyncio.create_task(loop.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(30):
            await task


async def until(condition, *, seconds: float = 20.0):
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


async def test_the_loop_reports_what_was_missed_in_a_pause_and_goes_on_when_the_next_window_is_over(fleet):
    nodes = [node("n1")]
    await fleet.ledger(*(at(f"{number:02d}:00") for number in range(7, 13)), nodes=nodes)

    async with running(fleet):
        await until(lambda: _count(fleet, 5))
        assert await fleet.reported() == [hour(f"{number:02d}:00") for number in range(7, 12)]
        fleet.clock.at = at("13:00:10")
        await until(lambda: _count(fleet, 6))

    assert (await fleet.reported())[-1] == hour("12:00")
    rows = await fleet.rows(hour("08:00"))
    assert rows.keys() == {IDLE}
    assert rows[IDLE].total_cost == Decimal("5.672")  # a g5.12xlarge of the table


async def _count(fleet: Fleet, count: int) -> bool:
    return len(await fleet.reported()) >= count


async def test_two_workers_at_once_leave_one_report_of_each_window(fleet):
    await fleet.ledger(*(at(f"{number:02d}:00") for number in range(5, 13)), nodes=[node("n1")], pods=[pod("a", "05:30", "11:10")])

    first, second = await fleet.work(), await fleet.work()
    written = await asyncio.gather(first.due(REGION), second.due(REGION))

    assert await fleet.reported() == [hour(f"{number:02d}:00") for number in range(5, 12)]
    assert 7 <= sum(written) <= 14
    for window in await fleet.reported():
        keys = ReportKeys.scheduled(REGION, window)
        summary = await fleet.costs.store.summary(keys)
        assert summary.jobs_tag == await fleet.costs.objects.tag_of(keys.jobs)
        await fleet.rows(window)


async def test_a_job_over_midnight_is_in_the_reports_of_both_days_and_its_parts_add_up(fleet):
    nodes = [node("n1")]
    pods = [pod("a", "23:40", at("00:20", day=18))]
    await fleet.ledger(at("23:00"), nodes=nodes, pods=pods)
    await fleet.ledger(at("00:00", day=18), at("01:00", day=18), nodes=nodes, pods=pods)
    fleet.clock.at = at("03:00", day=18)

    await (await fleet.work()).due(REGION)

    before, after = await fleet.rows(hour("23:00")), await fleet.rows(hour("00:00", day=18))
    assert before["ml"].gpu_hours == after["ml"].gpu_hours == Decimal("0.333333333")
    assert before["ml"].total_cost == after["ml"].total_cost > 0
    keys = ReportKeys.scheduled(REGION, hour("00:00", day=18))
    assert "date=2026-05-18" in keys.allocation
    assert before["ml"].total_cost + before[IDLE].total_cost == Decimal("5.672")


async def test_a_report_of_a_ledger_that_stops_is_made_again_when_an_observer_comes_back(fleet):
    nodes = [node("n1")]
    await fleet.ledger(at("09:00"), nodes=nodes)
    await fleet.ledger(at("10:00"), until=at("10:20"), nodes=nodes)
    work = await fleet.work()

    await work.due(REGION)

    partial = await fleet.costs.store.summary(ReportKeys.scheduled(REGION, hour("10:00")))
    assert (partial.complete, partial.final, partial.complete_to) == (False, False, at("10:20"))
    assert partial.node_cost < Decimal("5.672")

    await fleet.ledger(at("10:00"), at("11:00"), nodes=nodes, pods=[pod("a", "10:30", "10:45")], observer="o2")
    await work.due(REGION)

    whole = await fleet.costs.store.summary(ReportKeys.scheduled(REGION, hour("10:00")))
    assert (whole.complete, whole.final, whole.node_cost) == (True, True, Decimal("5.672"))
    assert "ml" in await fleet.rows(hour("10:00"))


async def test_a_message_asks_for_one_window_and_a_schedule_s_for_all_that_are_due(fleet):
    await fleet.ledger(at("09:00"), at("10:00"), at("11:00"), nodes=[node("n1")])
    one = {"task": "cost_window", "region": REGION, "window": {"start": at("10:00").isoformat(), "end": at("11:00").isoformat()}}
    work = await fleet.work()

    assert await answer(work, {"Records": [_record("1", json.dumps(one))]}) == {"batchItemFailures": []}
    assert await fleet.reported() == [hour("10:00")]

    await answer(work, {"task": "cost_window"})
    assert await fleet.reported() == [hour("09:00"), hour("10:00"), hour("11:00")]


def _record(number: str, body: str) -> dict:
    return {"messageId": number, "body": body, "receiptHandle": number, "attributes": {"ApproximateReceiveCount": "1"}}


async def test_the_loop_takes_messages_and_puts_those_that_mean_nothing_among_the_dead_letters(fleet):
    fleet.clock.at = at("11:30")
    await fleet.ledger(at("10:00"), nodes=[node("n1")])
    queue, dead = await fleet.queue(), await fleet.dead()
    wrong = [
        "nonsense",
        json.dumps({"task": "scrape"}),
        json.dumps({"task": "cost_window", "region": "mars-1"}),
        json.dumps({"task": "cost_window", "window": {"start": "2026-05-17T10:30:00Z", "end": "2026-05-17T11:30:00Z"}}),
        json.dumps({"task": "cost_window", "window": {"start": "2026-05-17T11:00:00Z", "end": "2026-05-17T12:00:00Z"}}),
        json.dumps({"task": "cost_window", "window": {"start": "2026-05-17T11:00:00", "end": "2026-05-17T10:00:00Z"}}),
        json.dumps({"task": "cost_window", "surplus": 1}),
    ]
    for body in [*wrong, json.dumps({"task": "cost_window", "region": REGION})]:
        await queue.send(body)

    async with running(fleet):
        await until(lambda: _count(fleet, 1))
        found: list = []

        async def all_dead() -> bool:
            found.extend(await dead.receive(wait_seconds=0, visibility=60))
            return len(found) == len(wrong)

        await until(all_dead)

        async def empty() -> bool:
            return await queue.count() == 0

        await until(empty)

    assert {message.body for message in found} == set(wrong)
    reasons = {message.body: message.attributes["reason"] for message in found}
    assert "must be a region of the fleet" in reasons[wrong[2]]
    assert "/window" in reasons[wrong[3]]
    assert "/window" in reasons[wrong[4]]


async def test_what_can_t_be_done_now_comes_again_and_the_rest_of_the_batch_does_not(fleet):
    await fleet.ledger(at("10:00"), nodes=[node("n1")])
    work = await fleet.work()
    good = {"task": "cost_window", "region": REGION, "window": {"start": at("10:00").isoformat(), "end": at("11:00").isoformat()}}
    missing = fleet.resources.settings.model_copy(update={"bucket": f"{fleet.resources.settings.bucket}-gone"})
    broken = await build(missing, fleet.resources.aws, clock=fleet.clock)
    event = {"Records": [_record("1", json.dumps(good)), _record("2", "nonsense")]}

    assert await answer(work, event) == {"batchItemFailures": []}
    assert await answer(broken, event) == {"batchItemFailures": [{"itemIdentifier": "1"}]}


async def test_an_invocation_whose_time_is_over_begins_nothing(fleet):
    await fleet.ledger(at("09:00"), at("10:00"), nodes=[node("n1")])
    work = await fleet.work()

    told = await answer(work, {"Records": [_record("1", json.dumps({"task": "cost_window"}))]}, seconds=0.0)

    assert told == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert await fleet.reported() == []


async def test_a_fleet_that_nobody_has_observed_has_no_reports(fleet):
    fleet.clock.at = datetime(2026, 5, 18, tzinfo=UTC)

    assert await (await fleet.work()).due(REGION) == 0

    assert await fleet.costs.objects.listed("") == []


async def test_a_window_that_can_t_be_priced_now_doesn_t_keep_others_from_being_reported(fleet):
    await fleet.ledger(at("08:00"), at("09:00"), nodes=[node("n1")])
    await fleet.ledger(at("10:00"), at("11:00"), nodes=[node("n1", end=at("10:00"))])
    work = await fleet.work()
    reporter = work._regions[REGION].reports

    class NoAnswer:
        async def rates(self, machine, window):
            raise UnavailableError("the price list does not answer")

    prices, reporter._prices = reporter._prices, NoAnswer()
    with pytest.raises(UnavailableError, match="price list"):
        await work.due(REGION)
    assert await fleet.reported() == [hour("10:00"), hour("11:00")]

    reporter._prices = prices
    await work.due(REGION)
    assert await fleet.reported() == [hour(f"{number:02d}:00") for number in (8, 9, 10, 11)]


async def test_the_program_ends_when_it_is_asked_to(fleet, tmp_path):
    settings = fleet.resources.settings
    environment = os.environ | {
        "GPUFLEET_TABLE": settings.table,
        "GPUFLEET_BUCKET": settings.bucket,
        "GPUFLEET_QUEUE_PREFIX": settings.queue_prefix,
        "GPUFLEET_REGIONS": REGION,
        "GPUFLEET_SPOT_PRICES_FILE": str(settings.spot_prices_file),
    }
    now = datetime.now(UTC)
    start = hour_of(now) - 2 * HOUR
    await fleet.ledger(start, start + HOUR, nodes=[node("n1", start)])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.costs", env=environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until(lambda: _count(fleet, 2), seconds=60)
        process.terminate()
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_queue_that_nobody_made_is_told(fleet):
    nowhere = fleet.resources.settings.model_copy(update={"queue_prefix": "nobody"})
    with pytest.raises(NotFoundError, match="nobody-tasks-dead"):
        await build(nowhere, fleet.resources.aws)

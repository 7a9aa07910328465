"""Reports in the bucket: what is in them, and that one window has one account whoever writes it."""

import asyncio
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pyarrow.parquet as pq
import pytest

from shared.costs.accounts import allocation_rows
from shared.costs.model import IDLE, UNKNOWN, Window, exact_sum
from shared.costs.report_keys import ReportKeys
from shared.costs.reports import AllocationRow
from shared.errors import NotFoundError
from tests.unit.costs.builders import REGION, at, node, pod, window

TEN = window("10:00", "11:00")
KEYS = ReportKeys.scheduled(REGION, TEN)


def _machines(costs):
    costs.told.nodes = [node("n1"), node("n2", instance_type=None)]
    costs.told.pods = [
        pod("a", "10:00", "10:30", labels={"team": "vision"}),
        pod("b", "10:15", "10:15:20.000001", namespace="nlp"),
        pod("c", "10:00", "10:00", namespace="zero", node="nowhere"),
        pod("d", "10:00", job_id=None, execution=None, submitted_by=None, namespace="kube-system", cores=Decimal("0.1"), gpus=0),
    ]


async def test_a_report_has_its_rows_in_parquet_and_they_add_up_to_what_the_nodes_cost(costs):
    _machines(costs)

    written = await costs.reporter().report(TEN)

    assert KEYS.allocation == "reports/region=us-east-1/date=2026-05-17/allocation-20260517T100000Z-20260517T110000Z.parquet"
    data = await costs.objects.get(KEYS.allocation)
    table = pq.read_table(io.BytesIO(data))
    assert table.column_names == list(AllocationRow.model_fields)
    rows = table.to_pylist()
    assert [row["total_cost"] for row in rows] == sorted((row["total_cost"] for row in rows), reverse=True)
    assert sum(row["total_cost"] for row in rows) == Decimal(36)
    assert {row["namespace"] for row in rows} == {"ml", "nlp", "zero", "kube-system", IDLE}
    assert {(row["window_start"], row["window_end"]) for row in rows} == {(TEN.start, TEN.end)}
    for row in rows:
        assert row["total_cost"] == row["cpu_cost"] + row["ram_cost"] + row["gpu_cost"]
    (ml,) = [row for row in rows if row["namespace"] == "ml"]
    assert ml["gpu_hours"] == Decimal("0.5")
    account = await costs.store.account(KEYS)
    assert exact_sum(row.total_cost for row in account.rows) == account.basis.node_cost == written.summary.node_cost == 36


async def test_the_rows_by_execution_come_back_as_they_were(costs):
    _machines(costs)
    await costs.reporter().report(TEN)

    account = await costs.store.account(KEYS)

    (ml,) = [row for row in account.rows if row.namespace == "ml"]
    assert (ml.job_id, ml.execution, ml.submitted_by, ml.labels) == ("job-a", 1, "ada", {"team": "vision"})
    assert (ml.instance_type, ml.capacity_type, ml.price_source, ml.gpu_seconds) == ("g5.12xlarge", "on_demand", "test", 1800)
    (nlp,) = [row for row in account.rows if row.namespace == "nlp"]
    assert nlp.cpu_core_seconds == Decimal("240.000012")
    (zero,) = [row for row in account.rows if row.namespace == "zero"]
    assert (zero.price_source, zero.total_cost, zero.price_as_of, zero.capacity_type) == (UNKNOWN, 0, None, None)


async def test_the_summary_tells_totals_completeness_and_prices_as_json(costs):
    _machines(costs)
    await costs.reporter().report(TEN)

    document = json.loads(await costs.objects.get(KEYS.summary))

    assert Decimal(document["total_cost"]) == 36
    assert isinstance(document["node_cost"], str)
    parts = [Decimal(document[name]) for name in ("jobs_cost", "other_cost", "idle_cost")]
    assert sum(parts) == 36
    assert all(parts)
    assert (document["complete"], document["final"], document["gaps"]) == (True, True, [])
    assert {one["source"]: one["as_of"] for one in document["prices"]} == {"test": "2026-05-17", UNKNOWN: None}
    assert document["allocation_key"] == KEYS.allocation


async def test_a_second_run_changes_nothing_and_reads_no_usage(costs):
    _machines(costs)
    first = await costs.reporter().report(TEN)
    before = await costs.objects.listed("")

    second = await costs.reporter().report(TEN)

    assert (first.changed, second.changed) == (True, False)
    assert await costs.objects.listed("") == before
    assert len(costs.told.asked) == 1


async def test_what_rests_on_a_part_of_the_window_is_made_again_when_more_is_known_and_then_never_more(costs):
    _machines(costs)
    costs.told.until = at("10:20")
    partial = (await costs.reporter().report(TEN)).summary
    assert (partial.complete, partial.final, partial.complete_to) == (False, False, at("10:20"))

    again = await costs.reporter().report(TEN)
    assert not again.changed

    costs.told.until = at("11:05")
    costs.told.pods.append(pod("late", "10:40", "10:50", namespace="late"))
    whole = await costs.reporter().report(TEN)
    assert whole.changed
    assert whole.summary.final
    assert {row.namespace for row in await costs.store.rows(KEYS)} >= {"late"}

    costs.told.pods.clear()
    assert not (await costs.reporter().report(TEN)).changed
    assert {row.namespace for row in await costs.store.rows(KEYS)} >= {"late"}


async def test_a_report_is_final_when_no_late_news_are_taken_in_any_more(costs):
    _machines(costs)
    costs.clock.at = at("11:01")
    early = await costs.reporter().report(TEN)
    costs.told.pods.append(pod("told late", "10:40", "10:50", namespace="late"))
    costs.clock.at = at("12:00")
    late = await costs.reporter().report(TEN)

    assert (early.summary.complete, early.summary.final) == (True, False)
    assert (late.changed, late.summary.final) == (True, True)
    assert "late" in {row.namespace for row in await costs.store.rows(KEYS)}


async def test_two_workers_that_know_different_things_leave_files_of_one_account(costs):
    _machines(costs)
    other = replace(costs, told=replace(costs.told, pods=[pod("x", "10:00", "11:00", namespace="x")], asked=[]))

    written = await asyncio.gather(*(one.reporter().report(TEN) for one in (costs, other, costs, other)))

    account = await costs.store.account(KEYS)
    rows = await costs.store.rows(KEYS)
    summary = await costs.store.summary(KEYS)
    assert {row.namespace for row in rows} == {row.namespace for row in account.rows}
    assert summary.jobs_tag == await costs.objects.tag_of(KEYS.jobs)
    assert {one.summary.jobs_tag for one in written} == {summary.jobs_tag}
    assert len(await costs.objects.listed("")) == 3


class _KilledError(Exception):
    pass


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("at_write", [1, 2, 3])
async def test_one_that_died_at_a_write_leaves_what_the_next_completes(costs, at_write, done, again):
    """Before or after it was done; of a first report, and of one that takes the place of another."""
    _machines(costs)
    if again:
        costs.told.until = at("10:20")
        await costs.reporter().report(TEN)
    costs.told.until = at("12:00")
    put_if, writes = costs.objects.put_if, []

    async def dying(key, *arguments, **options):
        writes.append(key)
        if len(writes) < at_write or done:
            await put_if(key, *arguments, **options)
        if len(writes) == at_write:
            raise _KilledError
        return await costs.objects.tag_of(key)

    costs.objects.put_if = dying
    with pytest.raises(_KilledError):
        await costs.reporter().report(TEN)
    del costs.objects.put_if

    assert writes == [KEYS.jobs, KEYS.allocation, KEYS.summary][:at_write]
    assert (await costs.reporter().report(TEN)).summary.final
    summary, account = await costs.store.summary(KEYS), await costs.store.account(KEYS)
    assert summary.jobs_tag == await costs.objects.tag_of(KEYS.jobs)
    assert await costs.store.rows(KEYS) == allocation_rows(account)


@pytest.mark.parametrize("dies", [False, True])
async def test_one_that_is_slow_does_not_put_back_what_another_has_replaced(costs, dies):
    _machines(costs)
    costs.told.until = at("10:20")
    put_if = costs.objects.put_if
    slow, overtaken = replace(costs, told=replace(costs.told, asked=[])), []

    async def late(key, *arguments, **options):
        if key == KEYS.allocation and not overtaken:
            overtaken.append(key)
            costs.objects.put_if = put_if
            costs.told.until = at("12:00")
            assert (await costs.reporter().report(TEN)).summary.final
            if dies:
                await put_if(key, *arguments, **options)
                raise _KilledError
        return await put_if(key, *arguments, **options)

    costs.objects.put_if = late
    with pytest.raises(_KilledError) if dies else nullcontext():
        assert (await slow.reporter().report(TEN)).summary.final

    assert overtaken
    assert await costs.store.rows(KEYS) == allocation_rows(await costs.store.account(KEYS))
    assert (await costs.store.account(KEYS)).basis.final


async def test_a_job_over_midnight_is_paid_in_two_windows_of_two_days_exactly(costs):
    costs.told.nodes = [node("n1")]
    costs.told.pods = [pod("a", "23:40", at("00:20", day=18), cores=Decimal(48), memory_bytes=192 * 2**30, gpus=4)]
    before, after = Window(at("23:00"), at("00:00", day=18)), Window(at("00:00", day=18), at("01:00", day=18))

    for one in (before, after):
        await costs.reporter().report(one)

    paid = []
    for one in (before, after):
        keys = ReportKeys.scheduled(REGION, one)
        assert f"date={one.start:%Y-%m-%d}" in keys.allocation
        rows = {row.namespace: row for row in await costs.store.rows(keys)}
        assert rows["ml"].total_cost + rows[IDLE].total_cost == 36
        paid.append(rows["ml"].total_cost)
    assert paid == [Decimal(12), Decimal(12)]


async def test_one_that_is_asked_for_stands_beside_the_others(costs):
    _machines(costs)

    keys, written = await costs.reporter().adhoc(Window(at("09:30"), at("10:10")))
    again, _ = await costs.reporter().adhoc(Window(at("09:30"), at("10:10")))

    assert keys.allocation.startswith("adhoc/region=us-east-1/date=2026-05-18/allocation-20260517T093000Z-20260517T101000Z-")
    assert keys.allocation != again.allocation
    assert ReportKeys.parse(keys.allocation) == keys
    assert written.summary.total_cost == 24
    assert len(await costs.store.newest(REGION, adhoc=True, limit=10)) == 2
    assert await costs.store.newest(REGION, adhoc=False, limit=10) == []


async def test_nothing_is_written_of_a_time_that_nobody_told_of(costs):
    costs.told.until = at("08:00")

    with pytest.raises(NotFoundError, match="no observer of us-east-1"):
        await costs.reporter().adhoc(TEN)

    assert await costs.objects.listed("") == []


async def test_that_nothing_was_there_is_written_where_a_part_of_the_time_is_known(costs):
    costs.told.since = at("10:30")

    _, written = await costs.reporter().adhoc(TEN)

    assert (written.summary.total_cost, written.summary.complete_to, written.summary.complete) == (0, TEN.start, False)
    assert [(gap.start, gap.end) for gap in written.summary.gaps] == [(at("10:00"), at("10:30"))]


async def test_the_newest_are_listed_without_listing_the_old(costs):
    _machines(costs)
    for hours in (0, 24, 48, 49):
        await costs.reporter().report(Window(TEN.start + timedelta(hours=hours), TEN.end + timedelta(hours=hours)))

    found = await costs.store.newest(REGION, adhoc=False, limit=3)

    assert [keys.window.start for keys, _ in found] == [TEN.start + timedelta(hours=hours) for hours in (49, 48, 24)]

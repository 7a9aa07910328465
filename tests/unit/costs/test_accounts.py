"""Accounts, and files that keep them: whatever was there, rows by namespace and by execution add up to what the nodes cost."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.costs.accounts import Account, SumError, account_of, allocation_rows
from shared.costs.model import IDLE, IDLE_OR_OTHER, Window, exact_sum
from shared.costs.report_files import allocation_file, jobs_file, read_allocation, read_jobs
from shared.costs.report_keys import ReportKeys
from shared.costs.summaries import summary_of
from shared.costs.totals import By, totals
from shared.costs.usage import Usage
from tests.unit.costs.builders import REGION, at, machine, node, pod, rate, window

NINE = window("09:00", "10:00")
PRICES = {machine(): [rate("7.123456789", "00:00"), rate("1", "09:20:00.123456", source="other")]}


def usage(nodes, pods, *, within: Window = NINE, final: bool = True, all_pods: bool = True, gaps=()) -> Usage:
    until = gaps[0].start if gaps else within.end
    return Usage(window=within, nodes=nodes, pods=pods, complete_to=until, gaps=list(gaps), final=final, all_pods=all_pods)


NOON = at("12:00")


def made(found: Usage, made_at=NOON) -> Account:
    return account_of(found, PRICES, region=REGION, made_at=made_at)


moments = st.integers(-5400, 5400).map(lambda second: NINE.start + timedelta(seconds=second, microseconds=second % 7))
pods = st.lists(
    st.builds(
        lambda number, start, length, cores, gpus, namespace: pod(
            f"p{number}", start, start + timedelta(seconds=length), cores=cores, gpus=gpus, namespace=namespace, labels={"n": str(number)}
        ),
        st.integers(0, 50),
        moments,
        st.integers(0, 4000),
        st.decimals("0", "60", places=3),
        st.integers(0, 5),
        st.sampled_from(["ml", "nlp", "web"]),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(pods=pods, start=moments)
def test_rows_and_their_files_add_up_to_what_the_nodes_cost(pods, start):
    account = made(usage([node("n1"), node("n2", start), node("n3", instance_type=None)], pods))

    back = read_jobs(jobs_file(account))
    rows = read_allocation(allocation_file(allocation_rows(account)))

    assert back == account
    cost = account.basis.node_cost
    assert exact_sum(row.total_cost for row in rows) == exact_sum(row.total_cost for row in account.rows) == cost
    for part in ("cpu_cost", "ram_cost", "gpu_cost"):
        assert exact_sum(getattr(row, part) for row in rows) == exact_sum(getattr(row, part) for row in account.rows)
    assert rows == allocation_rows(account)
    assert [row.total_cost for row in rows] == sorted((row.total_cost for row in rows), reverse=True)
    summary = summary_of(account, rows, ReportKeys.scheduled(REGION, NINE), jobs_tag="t")
    assert summary.jobs_cost + summary.other_cost + summary.idle_cost == summary.total_cost == cost
    assert exact_sum(one.cost for one in summary.prices) == cost


def test_rows_that_do_not_add_up_are_no_account():
    account = made(usage([node("n1")], [pod("a", "09:00", "10:00")]))
    with pytest.raises(SumError, match="the rows add up to"):
        Account(basis=account.basis, rows=account.rows[1:])


def test_a_file_whose_rows_were_changed_is_not_read():
    account = made(usage([node("n1")], [pod("a", "09:00", "10:00")]))
    other = made(usage([node("n1"), node("n2")], []))
    mixed = Account.__new__(Account)
    object.__setattr__(mixed, "basis", account.basis)
    object.__setattr__(mixed, "rows", other.rows)
    with pytest.raises(SumError):
        read_jobs(jobs_file(mixed))


def test_a_window_without_anything_has_files_too():
    account = made(usage([], []))
    assert account.rows == []
    assert read_jobs(jobs_file(account)) == account
    assert read_allocation(allocation_file([])) == []


@pytest.mark.parametrize(("all_pods", "name"), [(True, IDLE), (False, IDLE_OR_OTHER)])
def test_what_is_left_of_nodes_keeps_its_name(all_pods, name):
    (row,) = allocation_rows(made(usage([node("n1")], [], all_pods=all_pods)))
    assert row.namespace == name


def test_what_can_still_be_told_late_is_not_final():
    found = usage([node("n1")], [])
    assert not made(found, made_at=at("10:59:59")).basis.final
    assert made(found, made_at=at("11:00")).basis.final
    assert not made(replace(found, final=False)).basis.final


def test_an_account_is_better_that_rests_on_more_and_none_is_better_than_a_final_one():
    nothing = made(usage([], [], final=False, gaps=[NINE])).basis
    half = made(usage([], [], final=False, gaps=[window("09:30", "10:00")])).basis
    whole = made(usage([], [], final=False)).basis
    final = made(usage([], [])).basis
    final_with_gap = made(usage([], [], gaps=[window("09:30", "10:00")])).basis
    ordered = [nothing, half, whole, final_with_gap]
    for number, one in enumerate(ordered):
        assert [one.better_than(other) for other in ordered] == [number > at for at in range(4)]
    assert not final.better_than(final_with_gap)
    assert not final_with_gap.better_than(final)


def test_hours_whose_price_nobody_knows_are_in_the_summary():
    account = made(usage([node("n1", instance_type=None)], [pod("a", "09:00", "09:30", gpus=2, cores=Decimal(3))]))
    summary = summary_of(account, allocation_rows(account), ReportKeys.scheduled(REGION, NINE), jobs_tag="t")
    assert summary.total_cost == 0
    assert (summary.unpriced_gpu_hours, summary.unpriced_core_hours) == (4, 48)  # the whole node's, what was idle too
    assert [one.source for one in summary.prices] == ["unknown"]


def test_a_file_of_an_earlier_release_which_had_no_names_is_still_read():
    account = read_jobs(Path(__file__).with_name("reports").joinpath("jobs-without-names.parquet").read_bytes())

    told = {(row.job_id, row.execution): row for row in account.rows if row.job_id}
    assert told.keys() == {("job-p1", 1), ("job-p1", 2), ("job-p3", 1)}
    assert {row.job_name for row in account.rows} == {None}
    assert (told["job-p1", 1].total_cost, told["job-p1", 1].labels, account.basis.final) == (Decimal("0.709"), {"team": "vision"}, True)
    assert read_jobs(jobs_file(account)) == account
    assert [(one.key, one.name) for one in totals(account.rows, By.JOB)][:2] == [(IDLE_OR_OTHER, None), ("job-p1", None)]

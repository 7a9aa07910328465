"""Rows summed up by what a reader asks for."""

from dataclasses import replace
from decimal import Decimal

import pytest

from shared.costs.allocation import allocate
from shared.costs.model import IDLE, UNALLOCATED, CapacityType, exact_sum
from shared.costs.totals import By, totals
from shared.errors import InvalidError
from tests.unit.costs.builders import machine, node, pod, rate, window

SPOT = machine(capacity_type=CapacityType.SPOT, zone="us-east-1a")
NODES = [node("n1"), node("n2", capacity_type=CapacityType.SPOT), node("n3", instance_type="x9.huge", cluster="west")]
PODS = [
    pod("a", "09:00", "09:30", job_id="j1", labels={"team": "vision"}),
    pod("b", "09:00", "09:15", job_id="j1", execution=2, node="ip-n2", labels={"team": "vision"}),
    pod("c", "09:00", "10:00", job_id="j2", namespace="nlp", submitted_by="bob", labels={"team": "text"}, node="ip-n2"),
    pod("d", "09:00", "10:00", job_id="j3", submitted_by=None, node="ip-n3", cluster="west"),
    pod("e", "09:00", "09:01", job_id=None, execution=None, submitted_by=None, namespace="kube-system"),
]
RATES = {machine(): [rate("36")], SPOT: [rate("10", source="spot")]}
ROWS = allocate(NODES, PODS, RATES, window("09:00", "10:00"), all_pods=True)


def keys(by, **options):
    return {(total.key, total.idle) for total in totals(ROWS, by, **options)}


def test_idle_is_never_added_to_what_was_used():
    rest = (IDLE, True)
    assert keys(By.JOB) == {("j1", False), ("j2", False), ("j3", False), (UNALLOCATED, False), rest}
    assert keys(By.EXECUTION) == {("j1/1", False), ("j1/2", False), ("j2/1", False), ("j3/1", False), (UNALLOCATED, False), rest}
    assert keys(By.NAMESPACE) == {("ml", False), ("nlp", False), ("kube-system", False), rest}
    assert keys(By.SUBMITTER) == {("ada", False), ("bob", False), (UNALLOCATED, False), rest}
    assert keys(By.LABEL, label="team") == {("vision", False), ("text", False), (UNALLOCATED, False), rest}


def test_what_nodes_are_tells_their_idle_time_apart():
    assert keys(By.CLUSTER) == {(cluster, idle) for cluster in ("us-east-1", "west") for idle in (False, True)}
    assert keys(By.CAPACITY_TYPE) == {(kind, idle) for kind in ("on_demand", "spot") for idle in (False, True)}
    assert keys(By.INSTANCE_TYPE) == {(kind, idle) for kind in ("g5.12xlarge", "x9.huge") for idle in (False, True)}


@pytest.mark.parametrize("by", By)
def test_totals_cost_what_the_rows_do_whatever_they_are_summed_up_by(by):
    found = totals(ROWS, by, label="team" if by is By.LABEL else None)
    assert exact_sum(total.total_cost for total in found) == exact_sum(row.total_cost for row in ROWS)
    assert [total.total_cost for total in found] == sorted((total.total_cost for total in found), reverse=True)


def test_hours_without_a_price_are_counted():
    found = {total.key: total for total in totals(ROWS, By.JOB)}
    assert (found["j3"].total_cost, found["j3"].unpriced_gpu_hours, found["j3"].unpriced_core_hours) == (0, 1, 12)
    assert found["j1"].unpriced_gpu_hours == 0
    assert found["j1"].gpu_hours == Decimal("0.75")


@pytest.mark.parametrize(("by", "label"), [(By.JOB, "team"), (By.LABEL, None), (By.LABEL, "")])
def test_a_label_is_for_labels_only(by, label):
    with pytest.raises(InvalidError) as raised:
        totals(ROWS, by, label=label)
    assert raised.value.problems[0].pointer == "/label"


def test_a_label_that_is_empty_is_as_none():
    rows = [replace(row, labels={"team": ""}) for row in ROWS]
    assert {total.key for total in totals(rows, By.LABEL, label="team")} == {UNALLOCATED, IDLE}


@pytest.mark.parametrize("by", By)
def test_a_job_is_told_by_its_name_too_and_nothing_else_is(by):
    found = totals(ROWS, by, label="team" if by is By.LABEL else None)

    jobs = {total.key for total in found if total.key.startswith("j") and by in {By.JOB, By.EXECUTION}}
    assert {total.key for total in found if total.name == "train"} == jobs


def test_reports_of_an_earlier_release_do_not_hide_the_name_that_later_ones_know():
    old = [replace(row, job_name=None) for row in ROWS]

    assert {total.name for total in totals([*old, *ROWS], By.JOB) if total.key == "j1"} == {"train"}
    assert {total.name for total in totals(old, By.JOB)} == {None}

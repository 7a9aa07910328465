"""Who pays for a node, case by case, against figures worked out by hand."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from shared.costs.allocation import allocate
from shared.costs.model import IDLE, IDLE_OR_OTHER, UNKNOWN, CapacityType, RowKind, Window, exact_sum
from shared.costs.rounding import rounded
from shared.costs.shares import Weights
from shared.costs.timeline import cost_of_nodes
from tests.unit.costs.builders import GIB, at, machine, node, pod, rate, window

# A g5.12xlarge of 36 USD an hour, one cent a second, split 60 : 12 : 28 between GPUs, cores and memory.
EASY = Weights(core_hour=Decimal("0.25"), gib_hour=Decimal(28) / Decimal(192), gpu_hour=Decimal(15), source="test")
RATES = {machine(): [rate("36")]}
HOUR = window("09:00", "10:00")


def rows(nodes, pods, window=HOUR, rates=RATES, **options):
    """The rows, once it has been seen that they cost what the nodes do."""
    found = allocate(nodes, pods, rates, window, **options)
    assert exact_sum(row.total_cost for row in found) == cost_of_nodes(nodes, rates, window)
    return found


def cents(value):
    return value.quantize(Decimal("0.0001"))


def of_job(found, job_id="job-p1"):
    (row,) = [row for row in found if row.job_id == job_id]
    return row


def idle(found):
    (row,) = [row for row in found if row.kind is RowKind.IDLE]
    return row


def test_a_job_pays_for_what_it_asks_and_idle_for_the_rest():
    found = rows([node()], [pod(start="09:00", end="09:30")], weights=EASY)
    job, rest = of_job(found), idle(found)
    assert [cents(part) for part in (job.gpu_cost, job.cpu_cost, job.ram_cost)] == [cents(Decimal(x)) for x in ("2.7", "0.54", "1.26")]
    assert cents(job.total_cost) == Decimal("4.5")  # a quarter of half an hour
    assert cents(rest.total_cost) == Decimal("31.5")
    assert (job.cpu_core_hours, job.ram_gib_hours, job.gpu_hours) == (6, 24, Decimal("0.5"))
    assert (rest.cpu_core_hours, rest.ram_gib_hours, rest.gpu_hours) == (42, 168, Decimal("3.5"))


def test_a_row_says_whose_it_is_and_where_its_price_is_from():
    labels = {"team": "vision"}
    job = of_job(rows([node()], [pod(end="09:30", labels=labels)], weights=EASY))
    assert (job.namespace, job.execution, job.submitted_by, job.labels) == ("ml", 1, "ada", labels)
    assert (job.instance_type, job.capacity_type, job.price_source) == ("g5.12xlarge", CapacityType.ON_DEMAND, "test")
    assert (job.price_as_of, job.window, job.kind) == (date(2026, 5, 17), HOUR, RowKind.JOB)


def test_what_is_left_is_called_idle_only_where_all_pods_are_watched():
    assert idle(rows([node()], [])).namespace == IDLE_OR_OTHER
    assert idle(rows([node()], [], all_pods=True)).namespace == IDLE


def test_pods_that_are_not_the_fleets_are_one_row_for_each_namespace():
    others = [
        pod(uid, "09:00", "09:30", job_id=None, execution=None, submitted_by=None, namespace="kube-system", labels={"pod": uid})
        for uid in ("a", "b")
    ]
    found = rows([node()], others, all_pods=True)
    (other,) = [row for row in found if row.kind is RowKind.OTHER]
    assert (other.namespace, other.job_id, other.labels, other.gpu_hours) == ("kube-system", None, {}, 1)


def test_a_job_over_midnight_is_paid_for_on_both_days():
    over = [pod(start=at("23:00"), end=at("01:00", 18))]
    first, second = (rows([node()], over, window(day=day), weights=EASY) for day in (17, 18))
    assert [cents(of_job(found).total_cost) for found in (first, second)] == [9, 9]
    both = rows([node()], over, Window(at("00:00"), at("00:00", 19)), weights=EASY)
    assert exact_sum(of_job(found).total_cost for found in (first, second)) == of_job(both).total_cost


def test_a_job_over_a_price_change_pays_each_price_for_its_time():
    rates = {machine(): [rate("36"), rate("18", "09:20")]}
    found = rows([node()], [pod(start="09:10", end="09:30")], rates=rates, weights=EASY)
    assert cents(of_job(found).total_cost) == Decimal("2.25")  # a quarter of 600 s at 1 cent and 600 s at half a cent
    assert cents(idle(found).total_cost) == 12 + 12 - Decimal("2.25")


def test_an_interrupted_job_pays_for_both_executions_on_both_nodes():
    spot, other = node("n1", end="09:20", capacity_type=CapacityType.SPOT), node("n2", "09:15")
    rates = {machine(capacity_type=CapacityType.SPOT, zone="us-east-1a"): [rate("7.2", source="spot")], machine(): [rate("36")]}
    pods = [
        pod("a", "09:00", "09:20", job_id="j"),
        pod("b", "09:30", "09:40", job_id="j", execution=2, node="ip-n2"),
    ]
    found = {row.execution: row for row in rows([spot, other], pods, rates=rates, weights=EASY) if row.job_id == "j"}
    assert cents(found[1].total_cost) == Decimal("0.6")
    assert cents(found[2].total_cost) == Decimal("1.5")
    assert (found[1].capacity_type, found[1].price_source) == (CapacityType.SPOT, "spot")


def test_a_pod_that_was_there_for_no_time_has_a_row_of_nothing():
    found = rows([node()], [pod(start="09:10", end="09:10")])
    assert (of_job(found).total_cost, of_job(found).gpu_hours) == (0, 0)
    assert idle(found).total_cost == cost_of_nodes([node()], RATES, HOUR)
    assert len(rows([node()], [pod(start="09:10", end="09:10")], window("10:00", "11:00"))) == 1


def test_a_pod_that_outlives_its_node_is_paid_for_until_the_node_ends():
    found = rows([node(end="09:30")], [pod(start="09:00")], weights=EASY)
    assert cents(of_job(found).total_cost) == Decimal("4.5")
    assert of_job(found).gpu_hours == Decimal("0.5")


def test_a_pod_that_came_when_its_node_had_gone_has_a_row_of_nothing():
    assert of_job(rows([node(end="09:10")], [pod(start="09:20", end="09:30")])).total_cost == 0


def test_a_node_without_pods_is_all_idle():
    found = rows([node()], [])
    assert [row.kind for row in found] == [RowKind.IDLE]
    assert cents(found[0].total_cost) == 36


def test_an_end_before_the_start_is_no_time():
    found = rows([node(), node("n2", "09:30", "09:00")], [pod(start="09:30", end="09:29")])
    assert of_job(found).total_cost == 0
    assert cents(idle(found).total_cost) == 36


def test_what_is_told_twice_counts_once():
    nodes = [node(end="09:30"), node(start="08:00", end="09:40"), node(gpus=0, end=None)]
    pods = [pod(start="09:10", end=None), pod(start="09:00", end="09:20"), pod(start="09:05", end="09:15")]
    found = rows(nodes, pods, weights=EASY)
    assert cents(of_job(found).total_cost) == 3  # a quarter of 09:00 to 09:20
    assert cents(exact_sum(row.total_cost for row in found)) == 24  # to 09:40


def test_pods_that_ask_for_more_than_there_is_share_what_there_is():
    greedy = [pod(uid, "09:00", "10:00", gpus=4, cores=Decimal(48), memory_bytes=192 * GIB) for uid in ("a", "b")]
    found = rows([node()], greedy, weights=EASY)
    assert cents(of_job(found, "job-a").total_cost) == cents(of_job(found, "job-b").total_cost) == 18
    assert 0 <= idle(found).total_cost < Decimal("1e-9")
    assert idle(found).gpu_hours == 0


def test_a_machine_of_unknown_price_costs_nothing_and_says_so():
    found = rows([node(instance_type="x9.huge"), node("n2", instance_type=None)], [pod(start="09:00", end="10:00")])
    assert {(row.price_source, row.price_as_of, row.total_cost, row.priced) for row in found} == {(UNKNOWN, None, 0, False)}
    assert of_job(found).gpu_hours == 1


def test_before_the_first_known_price_it_is_unknown():
    rates = {machine(): [rate("36", "09:30")]}
    found = rows([node()], [pod(start="09:20", end="09:40")], rates=rates, weights=EASY)
    assert {row.price_source: cents(row.total_cost) for row in found if row.job_id} == {"test": Decimal("1.5"), UNKNOWN: 0}
    assert {row.price_source: row.gpu_seconds for row in found if row.job_id} == {"test": 600, UNKNOWN: 600}


def test_each_source_of_a_price_has_its_row_and_the_oldest_of_its_days():
    old = date(2026, 1, 1)
    rates = {machine(): [rate("36"), rate("36", "09:10", "table"), rate("36", "09:20", "table", as_of=old)]}
    found = rows([node()], [pod(start="09:00", end="10:00")], rates=rates)
    assert {row.price_source: row.price_as_of for row in found if row.job_id} == {"test": date(2026, 5, 17), "table": old}


def test_a_pod_whose_node_nobody_knows_counts_without_a_price():
    found = rows([], [pod(node="gone", start="09:00", end="09:30"), pod("p2", "09:10", "09:10", node="gone")])
    assert (of_job(found).gpu_hours, of_job(found).price_source, of_job(found).instance_type) == (Decimal("0.5"), UNKNOWN, None)
    assert of_job(found, "job-p2").gpu_hours == 0


def test_pods_of_one_execution_are_one_row_on_each_kind_of_node():
    nodes = [node("n1"), node("n2"), node("n3", instance_type="m5.4xlarge", gpus=0)]
    pods = [pod(f"{index}", "09:00", "09:30", job_id="j", node=f"ip-n{index}") for index in (1, 2, 3)]
    found = [row for row in rows(nodes, pods) if row.job_id]
    assert sorted((row.instance_type, row.cpu_core_hours) for row in found) == [("g5.12xlarge", 12), ("m5.4xlarge", 6)]


def test_a_node_that_tells_nothing_of_itself_costs_what_it_costs():
    empty = node(cores=Decimal(0), memory_bytes=0, gpus=0)
    found = rows([empty], [pod(start="09:00", end="09:30")])
    assert cents(of_job(found).cpu_cost) == 18
    assert cents(idle(found).total_cost) == 18


def test_the_most_expensive_row_comes_first():
    found = rows([node()], [pod("a", "09:00", "09:10"), pod("b", "09:00", "09:50")])
    assert [row.job_id for row in found] == [None, "job-b", "job-a"]


def test_rounded_rows_add_up_without_any_care():
    found = rounded(rows([node("n1"), node("n2", "09:00", "09:00:07")], [pod(f"{i}", "09:00", f"09:0{i}") for i in range(1, 8)]))
    total = sum(row.total_cost for row in found)
    assert total == cost_of_nodes([node("n1"), node("n2", "09:00", "09:00:07")], RATES, HOUR).quantize(Decimal("1e-9"))
    assert all(row.total_cost.as_tuple().exponent >= -9 for row in found)


@pytest.mark.parametrize("cut", [1, 7, 3599])
def test_a_window_cut_in_two_costs_what_it_costs_whole(cut):
    middle = HOUR.start + timedelta(seconds=cut)
    pods = [pod("a", "09:00:01", "09:50:03"), pod("b", "09:10", None)]
    parts = [rows([node()], pods, Window(*part)) for part in ((HOUR.start, middle), (middle, HOUR.end))]
    whole = rows([node()], pods)
    for job in ("job-a", "job-b"):
        halves = [row for found in parts for row in found if row.job_id == job]
        assert exact_sum(row.total_cost for row in halves) == of_job(whole, job).total_cost
        assert exact_sum(row.gpu_seconds for row in halves) == of_job(whole, job).gpu_seconds


def test_times_of_any_zone_are_the_same_times():
    elsewhere = at("09:30").astimezone(tz=datetime.now().astimezone().tzinfo)
    assert rows([node()], [pod(start=elsewhere, end="09:40")]) == rows([node()], [pod(start=elsewhere.astimezone(UTC), end="09:40")])


def test_a_pod_counts_on_the_node_that_had_its_name_then():
    earlier, later = node("n1", end="09:10"), replace(node("n2", "09:20"), name="ip-n1", instance_type="m5.4xlarge", gpus=0)
    found = rows([later, earlier], [pod("a", "09:00", "09:05"), pod("b", "09:25", "09:30"), pod("c", "09:19:58", "09:30")])
    assert {row.job_id: row.instance_type for row in found if row.job_id} == {
        "job-a": "g5.12xlarge",
        "job-b": "m5.4xlarge",
        "job-c": "m5.4xlarge",
    }

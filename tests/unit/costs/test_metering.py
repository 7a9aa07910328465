"""What an execution has cost by its own pods is what the reports say of it, whatever prices did and wherever windows are cut."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.costs.allocation import allocate
from shared.costs.metering import NOT_ENDED, cost_of
from shared.costs.model import CapacityType, Window, exact_sum
from shared.costs.rounding import QUANTUM, rounded
from tests.unit.costs.builders import at, machine, node, pod, rate

BEGIN = at("09:00")
SECONDS = 3 * 3600
FLAT = {machine(): [rate("7.2")]}


def second(number):
    return BEGIN + timedelta(seconds=number)


@st.composite
def fleets(draw):
    """Nodes from which a scheduler gives away no more than there is, and pods of several executions on them."""
    nodes, pods = [], []
    for number in range(draw(st.integers(1, 3))):
        start = draw(st.integers(-3600, SECONDS // 2))
        end = draw(st.none() | st.integers(start + 1, SECONDS + 3600))
        spot = draw(st.booleans())
        nodes.append(
            node(
                f"n{number}",
                second(start),
                second(end) if end else None,
                capacity_type=CapacityType.SPOT if spot else CapacityType.ON_DEMAND,
            )
        )
        for slot in range(4):  # a quarter of the node each, one pod after the other
            free = start
            for turn in range(draw(st.integers(0, 3))):
                begins = draw(st.integers(free, SECONDS))
                free = draw(st.integers(begins, SECONDS))
                pods.append(
                    pod(
                        f"p{number}{slot}{turn}",
                        second(begins),
                        second(free),
                        node=f"ip-n{number}",
                        job_id="ours" if draw(st.booleans()) else "theirs",
                        execution=draw(st.integers(1, 2)),
                        cores=Decimal(draw(st.integers(0, 12))),
                        memory_bytes=draw(st.integers(0, 48 * 2**30)),
                        gpus=draw(st.integers(0, 1)),
                    )
                )
    return nodes, pods


@st.composite
def prices(draw):
    usd = st.decimals(0, 120, places=6)
    changes = draw(st.lists(st.tuples(st.integers(-3600, SECONDS), usd), max_size=4))
    spot = [rate(str(draw(usd)), second(-7200)), *(rate(str(price), second(number)) for number, price in changes)]
    return {
        machine(): [rate(str(draw(usd)), second(-7200))],
        machine(capacity_type=CapacityType.SPOT, zone="us-east-1a"): spot,
    }


@st.composite
def windows(draw):
    """The whole time cut into windows, as a schedule would."""
    cuts = sorted(draw(st.sets(st.integers(-3599, SECONDS + 7199), max_size=5)))
    moments = [second(number) for number in (-3600, *cuts, SECONDS + 7200)]
    return [Window(first, last) for first, last in pairwise(moments)]


@settings(deadline=None, max_examples=200)
@given(fleets(), prices(), windows(), st.integers(1, 2))
def test_it_is_what_the_reports_of_all_windows_say_of_the_execution(fleet, rates, cut, number):
    nodes, pods = fleet
    own = [one for one in pods if (one.job_id, one.execution) == ("ours", number)]

    told = cost_of(own, [one for one in nodes if one.name in {pod.node for pod in own}], rates, second(SECONDS), ended=True)

    of_ours = [[row for row in allocate(nodes, pods, rates, window) if (row.job_id, row.execution) == ("ours", number)] for window in cut]
    exact = exact_sum(row.total_cost for rows in of_ours for row in rows)
    assert told.missing is None
    assert abs(told.known_usd - exact) <= QUANTUM / 2
    in_reports = [
        row for window in cut for row in rounded(allocate(nodes, pods, rates, window)) if (row.job_id, row.execution) == ("ours", number)
    ]
    assert abs(told.known_usd - exact_sum(row.total_cost for row in in_reports)) <= QUANTUM * (3 * len(in_reports) + 1)


def test_one_that_runs_costs_what_it_has_used_up_to_now():
    running = [pod("p1", "09:00"), pod("p2", "09:30")]
    told = cost_of(running, [node()], FLAT, at("10:00"), ended=False)

    assert told.usd == Decimal("1.8") * Decimal("1.5")  # a quarter of 7.20 an hour, for an hour and for half of one


def test_it_never_costs_less_at_its_end_than_it_did_before():
    late = at("09:00:10") + timedelta(microseconds=900_000)
    before = cost_of([pod("p1", "09:00")], [node()], FLAT, late, ended=False)
    after = cost_of([pod("p1", "09:00", "09:00:10")], [node()], FLAT, late, ended=True)

    assert before == after


def test_a_pod_that_begins_after_the_clock_of_whoever_asks_has_cost_nothing_yet():
    told = cost_of([pod("p1", "10:00")], [node()], FLAT, at("09:59"), ended=False)

    assert told.usd == 0


@pytest.mark.parametrize("start", ["09:00", "11:00"], ids=["begun", "begun-after-now"])
def test_an_end_of_which_a_pod_does_not_tell_yet_is_not_all_that_it_cost(start):
    told = cost_of([pod("p1", start)], [node()], FLAT, at("10:00"), ended=True)

    assert (told.usd, told.missing) == (None, NOT_ENDED)


def test_an_execution_without_pods_and_a_pod_that_was_there_for_no_time_cost_nothing():
    assert cost_of([], [], {}, at("10:00"), ended=True).usd == 0
    assert cost_of([pod("p1", "09:00", "09:00")], [node()], {}, at("10:00"), ended=True).usd == 0


def test_a_price_that_nobody_knows_is_no_zero():
    nodes = [node(), node("n2", instance_type="p6.96xlarge", capacity_type=CapacityType.SPOT)]
    pods = [pod("p1", "09:00", "10:00"), pod("p2", "09:00", "10:00", node="ip-n2")]

    told = cost_of(pods, nodes, FLAT, at("10:00"), ended=True)

    assert (told.usd, told.known_usd) == (None, Decimal("1.8"))
    assert told.missing == "no price of p6.96xlarge (spot) in us-east-1 is known"


@pytest.mark.parametrize("nodes", [[], [node(instance_type=None)]], ids=["unknown-node", "unknown-type"])
def test_a_machine_that_nobody_knows_is_no_zero(nodes):
    told = cost_of([pod("p1", "09:00", "10:00")], nodes, FLAT, at("10:00"), ended=True)

    assert (told.usd, told.missing) == (None, "the machine of a pod is not known")


def test_a_price_that_is_only_known_from_a_time_on_leaves_the_time_before_untold():
    told = cost_of([pod("p1", "09:00", "10:00")], [node()], {machine(): [rate("7.2", "09:30")]}, at("10:00"), ended=True)

    assert (told.usd, told.known_usd) == (None, Decimal("0.9"))

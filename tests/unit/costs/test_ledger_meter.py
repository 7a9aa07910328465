"""What an observer knows of an execution's cost, and when it says that it doesn't."""

from __future__ import annotations

from decimal import Decimal

import pytest

from shared.costs.ledger import Ledger
from shared.costs.price_board import PriceBoard
from shared.jobs.model import ClusterObject, PodCounts
from shared.jobs.spending import NOTHING, unknown
from tests.unit.costs.builders import REGION, at, node, pod
from tests.unit.costs.test_price_board import Noon, Source
from tests.unit.jobs.builders import queued, seen
from workers.observer.meter import LedgerMeter

JOB = queued().id
LATE = unknown("execution 1 was not watched from its beginning")


def running(committed="09:00"):
    return queued(object=ClusterObject(name="train-1", uid="uid-1"), committed_at=at(committed))


async def meter(*pods, since="08:00"):
    ledger = Ledger(region=REGION, cluster=REGION, observer="o")
    ledger.nodes.listed([node("n1", "08:00")], at=at(since))
    ledger.pods.listed(pods, at=at(since))
    prices = PriceBoard(Source(), Noon(), ledger.nodes.all)
    await prices.renew()
    return LedgerMeter(ledger, prices)


def ours(uid="p1", start="09:00", end="10:00"):
    return pod(uid, start, end, job_id=JOB)


async def test_an_execution_that_was_watched_costs_what_its_pods_have():
    found = (await meter(ours(), ours("p2"), pod("other", "09:00", "10:00"))).cost(running(), seen(), at("11:00"), ended=True)

    assert found.usd == Decimal("3.6")  # two quarters of 7.20 an hour


@pytest.mark.parametrize(
    ("head", "object_seen"),
    [(queued(), None), (running(), seen(released="no"))],
    ids=["never-committed", "never-released"],
)
async def test_what_never_ran_has_cost_nothing(head, object_seen):
    assert (await meter(since="10:00")).cost(head, object_seen, at("11:00"), ended=True) is NOTHING


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        (PodCounts(succeeded=1), Decimal("1.8")),
        (PodCounts(succeeded=1, failed=1), None),
        (None, None),
    ],
    ids=["as-many-as-the-job-counts", "one-is-gone", "nobody-knows-how-many"],
)
async def test_an_observer_that_came_late_knows_by_what_the_job_counts(pods, expected):
    found = (await meter(ours(), since="09:30")).cost(running(), seen(pods=pods), at("11:00"), ended=True)

    assert found.usd == expected
    assert expected is not None or found == LATE


async def test_an_observer_that_came_late_and_saw_nothing_of_it_does_not_know():
    assert (await meter(since="09:30")).cost(running(), None, at("11:00"), ended=True) == LATE


async def test_a_fault_in_the_reckoning_is_no_fault_of_the_job():
    broken = await meter(ours())
    broken._prices.rates = None

    found = broken.cost(running(), seen(), at("11:00"), ended=True)

    assert found == unknown("what execution 1 has cost could not be reckoned")


async def test_settling_waits_for_the_end_of_a_pod_for_a_moment_only():
    late = await meter(ours(end=None))
    await late.settle(running())

    assert late.cost(running(), seen(), at("11:00"), ended=True).missing == "a pod had not ended yet"

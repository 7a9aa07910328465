"""What an execution has used is kept for as long as it lasts, however long ago; what nobody may ask for any more isn't."""

from __future__ import annotations

from datetime import timedelta

from shared.costs.ledger import Ledger
from shared.costs.open_executions import LINGERS, OpenExecutions
from tests.unit.costs.builders import REGION, at, node, pod

KEY = ("job", 1)
STEP = timedelta(seconds=60)


def watched():
    """A ledger that has watched since 08:00."""
    ledger = Ledger(region=REGION, cluster=REGION, observer="o")
    ledger.nodes.listed([node("n1", "08:00"), node("n2", "08:00")], at=at("08:00"))
    ledger.pods.listed([], at=at("08:00"))
    return ledger


def pass_time(ledger, start, end):
    """The time is noted, and what is to be written is written."""
    now = start
    while now <= end:
        ledger.tick(now)
        for hour in ledger.pending:
            ledger.take(hour)
        now += STEP


def test_pods_of_an_execution_that_lasts_are_kept_and_their_nodes_too():
    ledger = watched()
    ledger.executions.opened("uid", KEY)
    for uid, name, job in (("p1", "ip-n1", "job"), ("p2", "ip-n2", "other")):
        ledger.pods.put(pod(uid, "08:10", "08:20", node=name, job_id=job))
    ledger.nodes.listed([], at=at("08:30"))

    pass_time(ledger, at("08:00"), at("11:30"))

    assert [one.uid for one in ledger.pods.of(KEY)] == ["p1"]
    assert [one.uid for one in ledger.nodes.of("ip-n1")] == ["n1"]
    assert ledger.pods.of(("other", 1)) == ledger.nodes.of("ip-n2") == []

    ledger.executions.closed("uid", at=at("11:30"))
    pass_time(ledger, at("11:31"), at("14:00"))

    assert (len(ledger.pods), len(ledger.nodes)) == (0, 0)


def test_what_is_kept_for_long_is_not_written_again():
    ledger = watched()
    ledger.executions.opened("uid", KEY)
    ledger.pods.put(pod("p1", "08:10", "08:20", job_id="job"))
    pass_time(ledger, at("08:00"), at("11:30"))

    assert ledger.take(at("11:00")).pods == []


def test_a_ledger_knows_since_when_it_has_watched_everything():
    ledger = Ledger(region=REGION, cluster=REGION, observer="o", all_pods=True)
    assert ledger.since is None
    ledger.nodes.listed([], at=at("08:00"))
    ledger.pods.listed([], at=at("08:02"))
    assert ledger.since is None
    ledger.others.listed([], at=at("08:01"))
    ledger.pods.listed([], at=at("09:00"))

    assert ledger.since == at("08:02")


def test_an_execution_that_has_ended_lingers():
    found = OpenExecutions()
    found.listed({"u1": ("a", 1), "u2": ("b", 1)}, at=at("08:00"))
    found.listed({"u2": ("b", 1)}, at=at("08:30"))
    found.closed("u2", at=at("09:00"))
    found.opened("u2", ("b", 1))  # an old event of it

    assert found.lasting(at("09:00")) == {("a", 1), ("b", 1)}
    assert found.lasting(at("08:30") + LINGERS) == {("b", 1)}
    assert found.lasting(at("09:00") + LINGERS) == frozenset()

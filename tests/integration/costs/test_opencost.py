"""OpenCost is read within bounds, and what it says is told beside what is reported, whatever it says."""

import socket
from decimal import Decimal

import pytest

from shared.costs import opencost as module
from shared.costs.model import IDLE
from shared.costs.opencost import OpenCost
from shared.costs.report_keys import ReportKeys
from shared.errors import UnavailableError
from tests.integration.costs.opencost_server import opencost_server
from tests.unit.costs.builders import REGION, node, pod, window

TEN = window("10:00", "11:00")
KEYS = ReportKeys.scheduled(REGION, TEN)


@pytest.fixture
async def served():
    async with opencost_server() as found:
        yield found


async def _report(costs, served):
    costs.told.nodes = [node("n1")]
    costs.told.pods = [pod("a", "10:00", "11:00", cores=Decimal(48), memory_bytes=192 * 2**30, gpus=4)]
    return (await costs.reporter(opencost=OpenCost(served.url, costs.clock)).report(TEN)).summary


async def test_it_is_asked_as_gco_asks_it(costs, served):
    await _report(costs, served)

    assert served.asked == [
        {"window": "2026-05-17T10:00:00Z,2026-05-17T11:00:00Z", "aggregate": "namespace", "accumulate": "true"},
    ]


async def test_differences_are_told_by_namespace_and_ours_stays_as_it_is(costs, served):
    served.sets = [
        {
            "ml": {"name": "ml", "totalCost": 30.5, "totalEfficiency": 0.25},
            "monitoring": {"totalCost": 1.25, "totalEfficiency": float("inf")},
            "__unallocated__": {"totalCost": float("nan")},
        }
    ]

    summary = await _report(costs, served)

    found = {one.namespace: (one.ours, one.opencost, one.difference) for one in summary.opencost.namespaces}
    assert found == {
        "ml": (36, Decimal("30.5"), Decimal("-5.5")),
        "monitoring": (None, Decimal("1.25"), Decimal("1.25")),
        "__unallocated__": (None, 0, 0),
        IDLE: (0, None, 0),
    }
    assert (summary.opencost.total_cost, summary.opencost.difference) == (Decimal("31.75"), Decimal("-4.25"))
    assert summary.total_cost == 36
    efficiency = {row.namespace: row.total_efficiency for row in await costs.store.rows(KEYS)}
    assert efficiency == {"ml": Decimal("0.25"), IDLE: 0}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"status": 500}, "500"),
        ({"body": b"<html>"}, "something else"),
        ({"body": b'{"data": 5}'}, "something else"),
        ({"body": b'{"data": [["ml"]]}'}, "something else"),
        ({"body": b"[" * 100_000}, "something else"),
        ({"body": b" " * 3000}, "larger than 2000 bytes"),
    ],
)
async def test_whatever_it_answers_the_report_is_made_and_says_so(costs, served, monkeypatch, answer, told):
    monkeypatch.setattr(module, "MAX_BYTES", 2000 if b" " in answer.get("body", b"") else 10**6)
    for name, value in answer.items():
        setattr(served, name, value)

    summary = await _report(costs, served)

    assert summary.total_cost == 36
    assert told in summary.opencost.error
    assert summary.opencost.total_cost is None


async def test_an_empty_answer_is_one(costs, served):
    served.sets = [None, {}]

    summary = await _report(costs, served)

    assert (summary.opencost.error, summary.opencost.total_cost) == (None, 0)


async def test_nobody_waits_for_one_that_hangs(costs, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        opencost = OpenCost(f"http://127.0.0.1:{silent.getsockname()[1]}", costs.clock)
        with pytest.raises(UnavailableError, match="no answer"):
            await opencost.allocations(TEN, seconds=0.2)


async def test_probes(costs, served):
    served.sets = [{"ml": {"totalCost": 1}, "nlp": {"totalCost": 2}}]
    opencost = OpenCost(served.url + "/", costs.clock)

    assert await opencost.healthy()
    assert await opencost.probe() == ["nlp", "ml"]

    served.healthy = False
    served.status = 503
    assert not await opencost.healthy()
    assert await opencost.probe() is None

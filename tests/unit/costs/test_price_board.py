"""Prices at hand: asked for when a machine joins, kept while a source is away."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from shared.costs.model import Rate
from shared.costs.price_board import PriceBoard
from shared.costs.prices import Machine
from shared.errors import UnavailableError
from tests.unit.costs.builders import DAY, at, machine, node


class Source:
    """A price list that can be away. Every machine costs what it says."""

    def __init__(self):
        self.usd = "7.2"
        self.away = False
        self.asked: list[tuple[Machine, object]] = []

    async def rates(self, wanted, window):
        self.asked.append((wanted, window))
        if self.away:
            raise UnavailableError("the price list is away")
        return [Rate(start=window.start, usd_per_hour=Decimal(self.usd), source="test", as_of=DAY)]


class Noon:
    def now(self):
        return at("12:00")


@asynccontextmanager
async def running(board):
    task = asyncio.create_task(board.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def test_a_price_begins_before_the_first_node_of_its_kind():
    source = Source()
    board = PriceBoard(source, Noon(), lambda: [node("n1", "09:00"), node("n2", "08:00", "08:30"), node("n3", instance_type=None)])

    assert await board.renew()

    ((wanted, window),) = source.asked
    assert (wanted, window.start, window.end) == (machine(), at("07:00"), at("12:00"))
    assert [one.usd_per_hour for one in board.rates[machine()]] == [Decimal("7.2")]


async def test_a_machine_of_a_new_kind_is_asked_for_at_once_and_one_of_a_known_kind_is_not():
    source, nodes = Source(), [node("n1", "09:00")]
    board = PriceBoard(source, Noon(), lambda: nodes)
    async with running(board):
        await until(lambda: machine() in board.rates)
        nodes.append(node("n2", "10:00"))
        board.noticed(nodes[-1])
        nodes.append(node("n3", "10:00", instance_type="g6.xlarge"))
        board.noticed(nodes[-1])
        await until(lambda: machine("g6.xlarge") in board.rates)
    assert [wanted.instance_type for wanted, _ in source.asked] == ["g5.12xlarge", "g5.12xlarge", "g6.xlarge"]


async def test_a_price_counts_as_heard_of_when_its_source_has_answered_or_failed():
    source, nodes = Source(), [node("n1", "09:00")]
    board = PriceBoard(source, Noon(), lambda: nodes)
    assert not board.heard(nodes[0])
    assert board.heard(node("n2", instance_type=None))

    source.away = True
    await board.renew()

    assert board.heard(nodes[0])
    assert not board.heard(node("n3", instance_type="g6.xlarge"))


async def test_the_last_word_of_a_source_that_is_away_stands_and_what_is_gone_is_dropped():
    source, nodes = Source(), [node("n1", "09:00")]
    board = PriceBoard(source, Noon(), lambda: nodes)
    assert await board.renew()
    source.away = True

    assert not await board.renew()
    assert board.rates[machine()]

    nodes.clear()
    assert await board.renew()
    assert not board.rates


async def test_a_fault_of_a_source_is_no_end_of_the_board():
    class Broken:
        async def rates(self, wanted, window):
            raise ValueError("no price")

    board = PriceBoard(Broken(), Noon(), lambda: [node()])

    assert not await board.renew()
    assert not board.rates


@pytest.mark.parametrize("start", ["11:59", "12:30"], ids=["just-joined", "ahead-of-our-clock"])
async def test_a_node_that_joins_now_has_a_price(start):
    board = PriceBoard(Source(), Noon(), lambda: [node("n1", start)])

    assert await board.renew()
    assert board.rates[machine()][0].start < at("11:59")

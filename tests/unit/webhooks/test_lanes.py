"""One lane that hangs holds up no other."""

from __future__ import annotations

import asyncio

import pytest

from shared.webhooks.lanes import Lanes


class Work:
    """Notes what starts, and ends when it is told to."""

    def __init__(self):
        self.started = []
        self.done = []
        self.gates = {}

    def __call__(self, name, *, hang=False, well=True):
        gate = self.gates.setdefault(name, asyncio.Event())
        if not hang:
            gate.set()

        async def work():
            self.started.append(name)
            await gate.wait()
            self.done.append(name)
            return well

        return work


@pytest.fixture
def work():
    return Work()


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0)


async def test_a_lane_that_hangs_holds_up_no_other(work):
    lanes = Lanes(each=2, total=100, waiting=1000)
    for number in range(500):
        lanes.offer("hangs", ("hangs", number), work(("hangs", number), hang=True))
    for number in range(50):
        lanes.offer(f"well-{number % 5}", number, work(number))

    await until(lambda: len(work.done) == 50)

    assert [name for name in work.started if isinstance(name, tuple)] == [("hangs", 0), ("hangs", 1)]
    await lanes.close(grace_seconds=0)


async def test_lanes_take_turns_when_there_is_little_room(work):
    lanes = Lanes(each=8, total=1, waiting=100)
    for number in range(3):
        for lane in "abc":
            lanes.offer(lane, (lane, number), work((lane, number)))

    await lanes.idle()

    assert work.done == [(lane, number) for number in range(3) for lane in "abc"]


async def test_no_more_than_a_few_at_a_time_in_a_lane_and_in_all(work):
    lanes = Lanes(each=3, total=7, waiting=100)
    for lane in "abcd":
        lanes.offer(lane, lane, work((lane, 0)))
    await lanes.idle()
    work.started.clear()
    work.done.clear()
    for lane in "abcd":
        for number in range(10):
            lanes.offer(lane, (lane, number), work((lane, number), hang=True))

    await until(lambda: len(work.started) == 7)
    assert max(sum(name[0] == lane for name in work.started) for lane in "abcd") <= 3
    for gate in work.gates.values():
        gate.set()
    await lanes.idle()
    assert len(work.done) == 40


async def test_half_of_the_room_is_for_those_that_go_well(work):
    """However many hang, or were never heard of: those whose last work went well find room."""
    lanes = Lanes(each=2, total=8, waiting=100)
    for lane, well in {"well": True, "broken": False}.items():
        lanes.offer(lane, lane, work(lane, well=well))
    await lanes.idle()
    for lane in ("broken", *"abcdefgh"):
        for number in range(5):
            lanes.offer(lane, (lane, number), work((lane, number), hang=True))
    await until(lambda: len(work.started) == 2 + 4)
    for number in range(20):
        lanes.offer("well", number, work(number))
    await until(lambda: len(work.done) == 2 + 20)

    assert work.started[2:6] == [("broken", 0), ("broken", 1), ("a", 0), ("a", 1)]
    assert len(work.started) == 2 + 4 + 20
    for gate in work.gates.values():
        gate.set()
    await lanes.idle()
    assert len(work.done) == 2 + 9 * 5 + 20


async def test_those_that_go_well_leave_the_other_half_to_the_rest(work):
    lanes = Lanes(each=8, total=8, waiting=100)
    lanes.offer("well", "well", work("well"))
    await lanes.idle()
    for number in range(20):
        lanes.offer("well", number, work(number, hang=True))
    await until(lambda: len(work.started) == 1 + 8)
    lanes.offer("new", "new", work("new"))
    work.gates[0].set()
    await until(lambda: "new" in work.done)

    assert len(work.started) == 1 + 8 + 1
    await lanes.close(grace_seconds=0)


async def test_a_full_lane_takes_nothing_and_nothing_is_taken_twice(work):
    lanes = Lanes(each=1, total=10, waiting=2)
    assert lanes.offer("a", 0, work(0, hang=True))
    assert lanes.offer("a", 1, work(1, hang=True))
    assert lanes.offer("a", 2, work(2, hang=True))
    assert (lanes.room("a"), lanes.room("b")) == (0, 2)
    assert not lanes.offer("a", 3, work(3))
    assert not lanes.offer("b", 2, work(2))
    assert [lanes.holds(key) for key in (0, 1, 2, 3)] == [True, True, True, False]
    await lanes.close(grace_seconds=0)


async def test_work_that_fails_gives_its_place_back(work):
    lanes = Lanes(each=1, total=1, waiting=10)

    async def fails():
        raise RuntimeError("no")

    lanes.offer("a", "fails", fails)
    lanes.offer("a", "well", work("well"))
    await lanes.idle()

    assert work.done == ["well"]
    assert not lanes.holds("fails")


async def test_settled_lanes_drop_what_waits_finish_what_runs_and_go_on(work):
    lanes = Lanes(each=1, total=10, waiting=10)
    lanes.offer("a", 0, work(0, hang=True))
    lanes.offer("a", 1, work(1))
    await until(lambda: work.started == [0])

    work.gates[0].set()
    await lanes.settle(grace_seconds=5)
    assert (work.done, lanes.holds(1)) == ([0], False)

    assert lanes.offer("a", 2, work(2))
    await lanes.idle()
    assert work.done == [0, 2]


async def test_closed_lanes_let_go_of_what_hangs_and_take_nothing(work):
    lanes = Lanes(each=1, total=10, waiting=10)
    lanes.offer("a", 0, work(0, hang=True))
    await until(lambda: work.started == [0])

    await lanes.close(grace_seconds=0.01)

    assert not lanes.offer("a", 1, work(1))
    assert (work.done, lanes.holds(0)) == ([], False)


async def test_lanes_that_settle_take_nothing_of_what_follows_from_what_they_finish(work):
    """A process that is frozen afterwards would go on with it when it thaws."""
    lanes = Lanes(each=1, total=10, waiting=10)
    offered = []

    async def followed():
        await work(0, hang=True)()
        offered.append(lanes.offer("b", 1, work(1)))

    lanes.offer("a", 0, followed)
    await until(lambda: work.started == [0])
    work.gates[0].set()
    await lanes.settle(grace_seconds=5)

    assert (offered, work.started, lanes.holds(1)) == ([False], [0], False)
    assert lanes.offer("b", 2, work(2))
    await lanes.idle()
    assert work.done == [0, 2]

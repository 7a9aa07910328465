"""What lives in a container from one invocation to the next."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from workers.lambdas import Container, seconds_left


class Thing:
    """Something that is opened and closed, and that at first can't be opened."""

    def __init__(self, faults: int) -> None:
        self.faults = faults
        self.open = 0
        self.begun = 0

    @asynccontextmanager
    async def opened(self):
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1

    async def start(self, settings, stack):
        self.begun += 1
        await stack.enter_async_context(self.opened())
        if self.begun <= self.faults:
            raise LookupError("a queue is missing")
        return self


async def add(thing):
    return thing.open + 1


def test_what_is_made_at_the_first_call_lives_on_and_can_be_ended():
    thing = Thing(faults=0)
    container = Container(thing.start, worker="tried")

    assert [container.run(add), container.run(add)] == [2, 2]
    assert container.living() is thing
    assert thing.begun == 1

    container.close()
    assert thing.open == 0
    assert container.run(add) == 2
    container.close()


def test_a_start_that_fails_is_tried_again_by_the_next_call_and_leaves_nothing_open():
    thing = Thing(faults=2)
    container = Container(thing.start, worker="tried")

    for _ in range(2):
        with pytest.raises(LookupError):
            container.run(add)
        assert thing.open == 0

    assert container.run(add) == 2
    container.close()


class Context:
    """Lambda's."""

    def __init__(self, milliseconds: int) -> None:
        self.get_remaining_time_in_millis = lambda: milliseconds


@pytest.mark.parametrize(
    ("context", "seconds"), [(Context(29_500), 19.5), (Context(3_000), 1.0), (None, 50.0)], ids=["time", "late", "nobody-says"]
)
def test_an_invocation_keeps_a_margin_of_its_time(context, seconds):
    assert seconds_left(context, margin=10.0) == seconds

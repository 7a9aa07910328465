"""The observer's queue of facts: order for each object, room for all, and nobody waits for what can't be handled yet."""

import asyncio
from datetime import timedelta

import pytest

from shared.errors import UnavailableError
from shared.jobs.observation import Fact
from shared.jobs.ports import Observed
from workers.observer import facts as facts_module
from workers.observer.facts import FactQueue


def fact(uid, *, version="1", gone=False):
    seen = Observed(
        name=uid,
        namespace="gco-jobs",
        uid=uid,
        resource_version=version,
        job_id=f"job-of-{uid}",
        execution=1,
        spec_hash="abc",
        released="yes",
        suspended=False,
        deleting=False,
    )
    return Fact(seen=seen, gone=gone)


class Handler:
    """Handles what it may: `until` says how many tries of an object fail; None: all of them."""

    def __init__(self, *, failures=(), pause=None, retry_after=None):
        self.failures = dict(failures)
        self.pause = pause
        self.retry_after = retry_after
        self.tries = []
        self.done = []
        self.changed = asyncio.Event()

    async def __call__(self, one):
        uid = one.seen.uid
        self.tries.append((uid, one.seen.resource_version, one.gone))
        await asyncio.sleep(0)
        self.changed.set()
        left = self.failures.get(uid, 0)
        if left is None or left > 0:
            if left is not None:
                self.failures[uid] = left - 1
            raise UnavailableError("not yet", retry_after=self.retry_after)
        self.done.append((uid, one.seen.resource_version, one.gone))
        return self.pause

    async def until(self, condition):
        async with asyncio.timeout(5):
            while not condition(self):
                self.changed.clear()
                await self.changed.wait()
                await asyncio.sleep(0)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(facts_module, "FIRST_PAUSE", 0.001)


def queue_of(handler, again=lambda uid: None, *, concurrency=2):
    return FactQueue(handler, again, concurrency=concurrency)


async def test_facts_that_can_not_be_handled_leave_room_for_others():
    handler = Handler(failures={f"slow-{number}": None for number in range(20)})
    queue = queue_of(handler)
    for number in range(20):
        queue.put(fact(f"slow-{number}"))
    queue.put(fact("quick"))
    await handler.until(lambda it: ("quick", "1", False) in it.done)
    await queue.close(grace_seconds=1)


async def test_what_could_not_be_handled_comes_again_until_it_is(quick):
    handler = Handler(failures={"a": 4})
    queue = queue_of(handler)
    queue.put(fact("a", gone=True))
    await handler.until(lambda it: it.done)
    assert handler.tries == [("a", "1", True)] * 5
    await queue.close(grace_seconds=1)


async def test_pauses_grow_and_an_error_may_ask_for_more(monkeypatch):
    pauses, loop = [], asyncio.get_running_loop()
    call_later = loop.call_later

    def noted(seconds, *call):
        pauses.append(seconds)
        return call_later(0, *call)

    handler = Handler(failures={"a": 8}, retry_after=1.0)
    queue = queue_of(handler)
    queue.put(fact("a"))
    with monkeypatch.context() as patched:
        patched.setattr(facts_module.asyncio.get_running_loop(), "call_later", noted)
        while not handler.done:
            await asyncio.sleep(0)
    assert pauses == [1.0, 1.0, 1.0, 1.6, 3.2, 6.4, 10.0, 10.0]
    await queue.close(grace_seconds=1)


async def test_a_newer_fact_of_the_object_is_handled_at_once_in_place_of_one_that_was_put_off():
    handler = Handler(failures={"a": 1}, retry_after=3600)
    queue = queue_of(handler)
    queue.put(fact("a"))
    await handler.until(lambda it: it.tries)
    queue.put(fact("a", version="2"))
    await handler.until(lambda it: it.done)
    assert handler.tries == [("a", "1", False), ("a", "2", False)]
    await queue.close(grace_seconds=1)


async def test_a_newer_fact_that_came_during_the_try_is_next():
    handler = Handler(failures={"a": 1}, retry_after=3600)
    queue = queue_of(handler)
    queue.put(fact("a"))
    while not handler.tries:
        await asyncio.sleep(0)
    queue.put(fact("a", version="2"))
    await handler.until(lambda it: it.done)
    assert handler.done == [("a", "2", False)]
    await queue.close(grace_seconds=1)


async def test_that_an_object_is_gone_is_never_replaced(quick):
    handler = Handler(failures={"a": 3})
    queue = queue_of(handler)
    queue.put(fact("a", gone=True))
    while not handler.tries:
        await asyncio.sleep(0)
    queue.put(fact("a", version="2"))  # during the try
    await asyncio.sleep(0)
    queue.put(fact("a", version="3"))  # while it is put off
    await handler.until(lambda it: it.done)
    assert set(handler.tries) == {("a", "1", True)}
    await queue.close(grace_seconds=1)


async def test_an_object_is_looked_at_again_when_its_handler_says_so():
    asked = []
    handler = Handler(pause=timedelta(milliseconds=1))
    queue = queue_of(handler, asked.append)
    queue.put(fact("a"))
    async with asyncio.timeout(5):
        while not asked:
            await asyncio.sleep(0.001)
    assert (asked, len(handler.tries)) == (["a"], 1)
    await queue.close(grace_seconds=1)


async def test_after_its_end_nothing_comes_again(quick):
    handler = Handler(failures={"a": None})
    queue = queue_of(handler)
    queue.put(fact("a"))
    await handler.until(lambda it: it.tries)
    await queue.close(grace_seconds=1)
    tries = len(handler.tries)
    await asyncio.sleep(0.01)
    assert len(handler.tries) == tries

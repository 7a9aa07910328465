"""Answers that go on: what ends them, and that nothing is left of them then."""

from __future__ import annotations

import asyncio

import pytest

from shared.errors import UnavailableError
from workers.api import following
from workers.api.following import Following, FollowingResponse

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": [], "asgi": {"spec_version": "2.3"}}


class Client:
    """A client that takes so many messages, and then none; it leaves when it is told to."""

    def __init__(self, takes=1000):
        self.takes = takes
        self.sent = []
        self.stuck = asyncio.Event()
        self.left = asyncio.Event()

    async def send(self, message):
        self.sent.append(message)
        if len(self.sent) > self.takes:
            self.stuck.set()
            await asyncio.Event().wait()

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self.sent)


class Chunks:
    """Chunks without end (or so many), and whether whoever made them was told to stop."""

    def __init__(self, count=None):
        self.count = count
        self.closed = False

    async def flow(self):
        try:
            number = 0
            while self.count is None or number < self.count:
                number += 1
                yield b"x"
                await asyncio.sleep(0)
            if self.count is not None:
                return
        finally:
            self.closed = True

    async def quiet(self):
        try:
            yield b"x"
            await asyncio.Event().wait()
        finally:
            self.closed = True


@pytest.fixture
def places():
    return Following(limit=1)


async def test_an_answer_ends_with_its_chunks(places):
    client, chunks = Client(), Chunks(count=3)

    await FollowingResponse(chunks.flow(), places, events=False)(SCOPE, client.receive, client.send)

    assert client.body == b"xxx"
    assert chunks.closed
    places.enter()


@pytest.mark.parametrize("events", [True, False])
@pytest.mark.parametrize("kind", ["flow", "quiet"])
async def test_a_client_that_leaves_ends_it(places, kind, events):
    client, chunks = Client(), Chunks()
    serving = asyncio.create_task(FollowingResponse(getattr(chunks, kind)(), places, events=events)(SCOPE, client.receive, client.send))
    while b"x" not in client.body:
        await asyncio.sleep(0)

    client.left.set()
    async with asyncio.timeout(5):
        await serving

    assert chunks.closed
    places.enter()


@pytest.mark.parametrize("events", [True, False])
@pytest.mark.parametrize("kind", ["flow", "quiet"])
async def test_the_end_of_the_process_ends_it_in_order(places, kind, events):
    client, chunks = Client(), Chunks()
    serving = asyncio.create_task(FollowingResponse(getattr(chunks, kind)(), places, events=events)(SCOPE, client.receive, client.send))
    while b"x" not in client.body:
        await asyncio.sleep(0)

    places.stopping.set()
    async with asyncio.timeout(5):
        await serving

    assert client.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert chunks.closed


async def test_a_client_that_takes_nothing_does_not_hold_up_the_end_of_the_process(places, monkeypatch):
    monkeypatch.setattr(following, "_LAST_WRITE_SECONDS", 0.05)
    client, chunks = Client(takes=3), Chunks()
    serving = asyncio.create_task(FollowingResponse(chunks.flow(), places, events=False)(SCOPE, client.receive, client.send))
    await client.stuck.wait()

    places.stopping.set()
    async with asyncio.timeout(5):
        await serving

    assert chunks.closed


async def test_a_fault_of_the_chunks_is_raised(places):
    async def faulty():
        yield b"x"
        raise ValueError("a fault")

    client = Client()
    with pytest.raises(ValueError, match="a fault"):
        await FollowingResponse(faulty(), places, events=True)(SCOPE, client.receive, client.send)

    places.enter()


async def test_there_are_so_many_places_and_none_at_the_end(places):
    places.enter()
    with pytest.raises(UnavailableError):
        places.enter()
    places.leave()
    places.stopping.set()
    with pytest.raises(UnavailableError):
        places.enter()

"""A process that is killed leaves its long poll at SQS, which takes what comes next: that must not wait long for it. In virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from shared.queues.doorbell import READY, STOP, WAKE
from shared.queues.heartbeat import UNHEARD_SECONDS
from shared.queues.queue import LONG_POLL_SECONDS, Message, Queue
from shared.settings import dead_letter_queue
from shared.store.bootstrap import MAX_RECEIVES
from tests.simulation.deliveries import play
from tests.simulation.sqs import Queues, SqsClient
from workers.batches import VISIBILITY, BatchLoop
from workers.dispatcher.loop import DispatcherLoop

NAME = "dispatch-us-east-1"
SOON = 6.0
SLOWLY = 4 * VISIBILITY


class CalmWay:
    """The way to a service that never fails."""

    def __init__(self) -> None:
        self.faults = self
        self.life = self
        self.answered: list[str] = []

    def happens(self, _fault: object) -> bool:
        return False

    async def thaw(self) -> None:
        """Nobody is frozen."""

    async def call(self, label: str, effect: Callable[[], Any], **_: Any) -> Any:
        await asyncio.sleep(0.01)
        self.answered.append(label)
        return effect()


class OutlivedQueue(Queue):
    """A queue as a process sees it that will be killed: what it has asked SQS for goes on without it."""

    async def receive(self, *limit: int, **options: Any) -> list[Message]:
        return await asyncio.shield(super().receive(*limit, **options))


class Place:
    """A queue, and who has to do with it."""

    def __init__(self) -> None:
        self.queues = Queues([NAME], loop=asyncio.get_running_loop(), chance=random.Random(7))
        self.way = CalmWay()
        self.client = SqsClient(self.queues, self.way)
        self.ready: set[str] = set()
        self.seen: dict[str, float] = {}
        self.looks = 0
        self.seconds = 0.0
        self.fails = False

    async def queue(self, kind: type[Queue] = Queue, name: str = NAME) -> Queue:
        return await kind.open(self.client, name)

    # What a dispatcher asks: its ready list, and what it does about stops and wakes.

    async def claim(self, _limit: int) -> tuple[list[Any], bool]:
        self.looks += 1
        for job_id in self.ready:
            self._see(job_id)
        return [], False

    def has_seen(self, job_id: str) -> bool:
        return job_id in self.seen

    async def answer(self, job_id: str) -> None:
        await asyncio.sleep(self.seconds)
        self._see(job_id)

    # What a consumer is handed.

    async def handle_all(self, messages: list[Message]) -> list[bool]:
        await asyncio.sleep(self.seconds)
        for message in messages:
            self._see(json.loads(message.body)["job_id"])
        return [self.fails for _ in messages]

    def _see(self, job_id: str) -> None:
        self.seen.setdefault(job_id, asyncio.get_running_loop().time())

    async def dispatcher(self, kind: type[Queue] = Queue) -> asyncio.Task[None]:
        loop = DispatcherLoop(
            queue=await self.queue(kind),
            dead_letters=await self.queue(name=dead_letter_queue(NAME)),
            dispatch=self,  # type: ignore[arg-type]
            stopping=self,  # type: ignore[arg-type]
            waking=self,  # type: ignore[arg-type]
            slots=4,
            grace_seconds=1.0,
        )
        return asyncio.create_task(loop.run(asyncio.Event()))

    async def consumer(self, kind: type[Queue] = Queue) -> asyncio.Task[None]:
        loop: BatchLoop[bool] = BatchLoop(queue=await self.queue(kind), handler=self, left=True, grace_seconds=1.0)
        return asyncio.create_task(loop.run(asyncio.Event()))

    async def ring(self, kind: str) -> float:
        """A job comes; gives when its bell was rung."""
        self.ready |= {"job-1"} if kind == READY else set()
        await (await self.queue()).send(json.dumps({"kind": kind, "job_id": "job-1"}))
        return asyncio.get_running_loop().time()


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def waited(start: Callable[[Place], Callable[..., Any]], kind: str) -> tuple[float, Place]:
    """How long a bell waits that is taken by the poll of a process that was killed while another one is idle."""
    place = Place()
    killed = await start(place)(OutlivedQueue)
    await asyncio.sleep(3)
    await end(killed)
    living = await start(place)()
    await asyncio.sleep(LONG_POLL_SECONDS / 2)
    rung = await place.ring(kind)
    await asyncio.sleep(SLOWLY)
    await end(living)
    return place.seen["job-1"] - rung, place


@pytest.mark.parametrize("kind", [READY, STOP, WAKE])
def test_a_bell_that_a_dead_dispatcher_takes_is_heard_by_another_soon(kind):
    seconds, place = play(lambda: waited(lambda place: place.dispatcher, kind))
    assert UNHEARD_SECONDS - 1 < seconds < SOON  # the dead one did take it
    assert not place.queues.find(NAME).messages


def test_a_message_that_a_dead_consumer_takes_is_handled_by_another_soon():
    seconds, place = play(lambda: waited(lambda place: place.consumer, READY))
    assert UNHEARD_SECONDS - 1 < seconds < SOON
    assert not place.queues.find(NAME).messages


@pytest.mark.parametrize("start", [lambda place: place.dispatcher, lambda place: place.consumer], ids=["bell", "message"])
def test_what_takes_long_is_nobody_elses_meanwhile(start):
    async def scene():
        place = Place()
        place.seconds = SLOWLY
        workers = [await start(place)() for _ in range(2)]
        await place.ring(STOP)
        await asyncio.sleep(2 * SLOWLY)
        for worker in workers:
            await end(worker)
        return place

    place = play(scene)
    assert not place.queues.find(NAME).messages
    assert sum(label.startswith("DeleteMessageBatch") for label in place.way.answered) == 1
    renewals = sum(label.startswith("ChangeMessageVisibilityBatch") for label in place.way.answered)
    assert renewals <= SLOWLY / (VISIBILITY / 3) + 1  # once soon, and then as seldom as ever


def test_what_is_left_has_its_tries_as_far_apart_as_ever():
    async def scene():
        place = Place()
        place.fails = True
        worker = await place.consumer()
        rung = await place.ring(READY)
        while not place.queues.dead_letters():
            await asyncio.sleep(1)
        await end(worker)
        return asyncio.get_running_loop().time() - rung

    assert play(scene) >= MAX_RECEIVES * VISIBILITY


def test_an_answer_that_needs_nothing_more_costs_no_renewal():
    async def scene():
        place = Place()
        worker = await place.dispatcher()
        await asyncio.sleep(1)
        await place.ring(READY)
        await asyncio.sleep(1)
        await end(worker)
        return place

    place = play(scene)
    assert place.seen
    assert not place.queues.find(NAME).messages
    assert not any(label.startswith("ChangeMessageVisibility") for label in place.way.answered)

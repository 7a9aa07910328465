"""Deliveries in virtual time: endpoints that behave as a test wants them to, real constants, and nothing that depends on the machine.

What is real: who makes deliveries, sends them, sends them again and spares endpoints, over the emulator's own handler of DynamoDB. What is
not: sockets, the queue, and time. The table takes one request after another, each for as long as the test says, so that who asks too much
of it makes others wait, on every machine alike.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import structlog

from shared.jobs import transitions
from shared.jobs.model import EventType
from shared.store import items, keys
from shared.store.deliveries import Deliveries
from shared.store.endpoints import Endpoints
from shared.store.table import Table
from shared.store.webhooks import Webhooks
from shared.webhooks.courier import Courier
from shared.webhooks.fanout import Fanout
from shared.webhooks.health import TableHealth
from shared.webhooks.lanes import Lanes
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Answer, Failure, Message
from shared.webhooks.standing import Standing
from shared.webhooks.sweeping import DeliverySweeper
from tests.simulation.dynamodb import TABLE, Tables
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.processes import Clock
from tests.unit.jobs.builders import queued
from workers.webhooks.sweep_loop import DeliverySweepLoop

T = TypeVar("T")
HANGS: Final = 10.0
"""Seconds after which an attempt is given up."""
ANSWERS: Final = 0.05
BATCHES: Final = 40
"""Events that are made deliveries of at the same time: four batches of ten."""
NAMESPACE: Final = "gco-jobs"


@dataclass
class Endpoint:
    """An endpoint, and what it was sent: `attempts` of each message, and when it `took` it (seconds since the start)."""

    answer: Callable[[Endpoint, str], Awaitable[Answer]]
    webhook: Webhook | None = None
    attempts: Counter[str] = field(default_factory=Counter)
    took: dict[str, float] = field(default_factory=dict)

    @property
    def tries(self) -> int:
        """How often it was tried."""
        return sum(self.attempts.values())

    @property
    def last(self) -> float:
        """When it took its last message."""
        return max(self.took.values(), default=0.0)


async def well(_endpoint: Endpoint, _message: str) -> Answer:
    """Takes everything."""
    await asyncio.sleep(ANSWERS)
    return Answer(status=204)


async def hangs(_endpoint: Endpoint, _message: str) -> Answer:
    """Answers nothing."""
    await asyncio.sleep(HANGS)
    return Answer(failure=Failure.TIMEOUT, text="no answer in time")


async def fails(_endpoint: Endpoint, _message: str) -> Answer:
    """Is broken."""
    await asyncio.sleep(ANSWERS)
    return Answer(status=500)


def refusing(times: int) -> Callable[[Endpoint, str], Awaitable[Answer]]:
    """Fails so many times with each message, and then takes it."""

    async def respond(endpoint: Endpoint, message: str) -> Answer:
        await asyncio.sleep(ANSWERS)
        return Answer(status=500 if endpoint.attempts[message] <= times else 204)

    return respond


class _Client:
    """DynamoDB's client: one request after the other."""

    def __init__(self, tables: Tables, seconds: float) -> None:
        self._tables = tables
        self._seconds = seconds
        self._room = asyncio.Lock()
        self.requests: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        operation = "".join(part.capitalize() for part in name.split("_"))

        async def call(**request: Any) -> Any:
            async with self._room:
                await asyncio.sleep(self._seconds)
                self.requests[operation] += 1
                return self._tables.request(operation, request)

        return call


class _Ids:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._made = 0

    def job(self) -> str:
        self._made += 1
        return f"01900000-{self._made:04x}-7000-8000-{self._chance.getrandbits(48):012x}"

    def nonce(self) -> str:
        return f"{self._chance.getrandbits(64):016x}"


class DeliveryWorld:
    """A table, endpoints, and workers that share them."""

    def __init__(self, *, seed: int = 1, request_seconds: float = 0.002) -> None:
        self._loop = asyncio.get_running_loop()
        self._seed = seed
        self.clock = Clock(self._loop, 0.0)
        self.ids = _Ids(random.Random(f"{seed}/ids"))
        self.client = _Client(Tables(), request_seconds)
        self.table = Table(self.client, TABLE)
        self.webhooks = Webhooks(self.table)
        self.endpoints: dict[str, Endpoint] = {}
        self._workers = 0

    async def endpoint(self, answer: Callable[[Endpoint, str], Awaitable[Answer]], *, namespace: str = NAMESPACE) -> Endpoint:
        """An endpoint that is told of the submission of all jobs of a namespace."""
        webhook = Webhook(
            id=self.ids.job(),
            url="https://endpoint.example/",
            events=("job.queued",),
            namespace=namespace,
            created_at=self.clock.now(),
            created_by="tester",
        )
        await self.webhooks.create(webhook)
        found = self.endpoints[webhook.id] = Endpoint(answer=answer, webhook=webhook)
        return found

    async def send(self, webhook: Webhook, message: Message) -> Answer:
        """The sender's part of `shared.webhooks.ports.Sender`."""
        endpoint = self.endpoints[webhook.id]
        endpoint.attempts[message.id] += 1
        answer = await endpoint.answer(endpoint, message.id)
        if answer.status is not None and answer.status < 300:
            endpoint.took.setdefault(message.id, self._loop.time())
        return answer

    def worker(self, *, lanes: Lanes | None = None) -> DeliveryWorker:
        """A worker, which makes deliveries when it is told to and sweeps when it runs."""
        self._workers += 1
        return DeliveryWorker(self, random.Random(f"{self._seed}/{self._workers}"), lanes)

    async def job(self, *, namespace: str = NAMESPACE, events: int = 1) -> str:
        """A job that has been submitted, and queued again for each further event; gives its id."""
        now = self.clock.now()
        own = {"id": self.ids.job(), "stamp": self.ids.nonce(), "submitted_at": now, "updated_at": now, "ring_at": None}
        head = queued(**own, namespace=namespace, submitted_by="ada")
        (event,) = transitions.submitted(head).events
        await self.table.put({"pk": keys.job(head.id), "sk": keys.HEAD} | items.to_item(head))
        for number in range(event.number, event.number + events):
            told = event if number == event.number else event.model_copy(update={"number": number, "type": EventType.RETRY})
            await self.table.put({"pk": keys.job(head.id), "sk": f"{keys.EVENT}{number:08d}"} | items.to_item(told))
        return head.id

    def time(self) -> float:
        """Seconds since the start."""
        return self._loop.time()

    async def until(self, condition: Callable[[], bool], *, seconds: float) -> float:
        """Wait until something holds; gives the time. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.05)
        return self._loop.time()


class DeliveryWorker:
    """One worker's parts."""

    def __init__(self, world: DeliveryWorld, chance: random.Random, lanes: Lanes | None) -> None:
        health = TableHealth(endpoints=Endpoints(world.table), clock=world.clock, ids=world.ids, chance=chance)
        self.deliveries = Deliveries(world.table, keys.Layout())
        self.courier = Courier(
            deliveries=self.deliveries,
            sender=world,
            health=health,
            standing=Standing(world.webhooks, world.clock),
            clock=world.clock,
            ids=world.ids,
            chance=chance,
            cluster=str,
            lanes=lanes,
        )
        self.fanout = Fanout(deliveries=self.deliveries, webhooks=world.webhooks, courier=self.courier)
        self.sweeper = DeliverySweeper(
            deliveries=self.deliveries, webhooks=world.webhooks, courier=self.courier, clock=world.clock, chance=chance
        )
        self._loop = DeliverySweepLoop(sweeper=self.sweeper, marks=self.deliveries.marks, clock=world.clock, idle_seconds=60.0)
        self._stop = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def tell(self, jobs: Sequence[str]) -> None:
        """Make the deliveries of the first event of jobs, as many at a time as the queue's loop would."""
        waiting = iter(jobs)

        async def some() -> None:
            for job_id in waiting:
                assert await self.fanout.tell(job_id, {1})

        await asyncio.gather(*(some() for _ in range(BATCHES)))

    async def __aenter__(self) -> DeliveryWorker:
        self._running = asyncio.create_task(self._loop.run(self._stop))
        return self

    async def __aexit__(self, *_exit: object) -> None:
        self._stop.set()
        assert self._running is not None
        await self._running
        await self.courier.close(grace_seconds=2 * HANGS)


def play(scene: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Play a scene in a loop of virtual time; gives what it returns."""
    configured = structlog.get_config()
    structlog.configure(processors=[_drop], cache_logger_on_first_use=False)
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(scene())
    finally:
        loop.close()
        structlog.configure(**configured)


def _drop(_logger: object, _method: str, _event: object) -> Any:
    raise structlog.DropEvent


__all__ = ["DeliveryWorld", "Endpoint", "fails", "hangs", "play", "refusing", "well"]

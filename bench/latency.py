"""How long it takes from a submission to the created object, against the floor: one job at a time, on idle workers.

The fleet: `Submission.submit` (admission, transaction, doorbell), and a dispatcher in this process that waits for doorbells. The floor: one
coroutine that makes the calls one after the other: transaction, send, receive, look, claim, read, create. Both end when the cluster
has answered the create; rounds of both alternate, and the figure is the ratio of the medians.

The emulator's long poll looks for messages every 100 ms, and not at once when one is sent as SQS does: some 50 ms that are in the fleet's
time as in the floor's, and would hide what is measured. So what lies between the answer to the send and that to the receive is taken
out of both. The ratio with it stands in the details, and the one to a floor that receives only after it has sent, and so never waits.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from bench.figures import Figure, Options
from bench.filling import heads, specification
from bench.floor import Floor
from bench.noticing import Noticing
from bench.stage import REGION, Fleet, fleet, stage
from bench.workload import request
from shared.clusters import client
from shared.jobs import transitions
from shared.jobs.placement import RegionPlacement
from shared.jobs.submission import Submission
from shared.policy import Policy
from shared.policy.gate import Gate
from shared.queues.doorbell import READY
from shared.settings import Settings
from shared.store import items
from shared.store.counters import Counters
from shared.store.regions import Regions
from workers.assembly import Core, assemble
from workers.dispatcher.build import build

ROUNDS = 60
WARM = 5


async def run(options: Options) -> list[Figure]:
    """The figure of latency."""
    rounds = 20 if options.quick else ROUNDS
    async with (
        stage() as place,
        fleet(place) as ours,
        fleet(place) as bare,
        client.connect(kubeconfig=place.kubeconfig(place.cluster), context=REGION) as api,
    ):
        seen = Noticing.on(api)
        bells = Bells(ours.clients.sqs)
        core = await assemble(ours.settings, replace(ours.clients, sqs=bells))
        submission = _submission(ours.settings, core)
        floor = FloorOfOne(bare, Floor(bare, api))
        measures: dict[str, Callable[[], Awaitable[Took]]] = {
            "fleet": lambda: _submit(submission, seen, bells),
            "floor": lambda: floor.run(waiting=True),
            "floor without waiting": lambda: floor.run(waiting=False),
        }
        loop = await build(core, bells, api, region=REGION, owner="bench")
        stop = asyncio.Event()
        running = asyncio.create_task(loop.run(stop))
        times: dict[str, list[Took]] = {name: [] for name in measures}
        for number in range(rounds + WARM):
            for name, measure in measures.items():
                took = await measure()
                # So that the next receive waits anew, at another point of the emulator's beat.
                await asyncio.sleep(0.05 + 0.13 * (number % 7) / 7)
                if number >= WARM:
                    times[name].append(took)
        stop.set()
        await running
    worked = {name: statistics.median(one.total - one.waited for one in found) for name, found in times.items()}
    total = {name: statistics.median(one.total for one in found) for name, found in times.items()}
    return [
        Figure(
            name="submit to created, median",
            value=worked["fleet"] / worked["floor"],
            bound=2.0,
            unit="x the floor's",
            note=f"{rounds} jobs, one at a time; without what the emulator lets a long poll wait for a message that is there",
            details={
                "median_milliseconds": {name: round(value * 1000, 1) for name, value in worked.items()},
                "median_milliseconds_with_the_wait": {name: round(value * 1000, 1) for name, value in total.items()},
                "ratio_with_the_wait": round(total["fleet"] / total["floor"], 2),
                "ratio_with_the_wait_to_a_floor_without": round(total["fleet"] / total["floor without waiting"], 2),
            },
        )
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Took:
    """Seconds in all, and those of them between the answer to the send and the answer to the receive."""

    total: float
    waited: float


class Bells:
    """An SQS client that remembers when a send and when a receive of something were last answered."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._sent = self._received = 0.0

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    @property
    def waited(self) -> float:
        """How long after the send the receive was answered."""
        return max(0.0, self._received - self._sent)

    async def send_message(self, **request: Any) -> Any:
        """Send one."""
        answer = await self._client.send_message(**request)
        self._sent = time.perf_counter()
        return answer

    async def receive_message(self, **request: Any) -> Any:
        """Receive some."""
        answer = await self._client.receive_message(**request)
        if answer.get("Messages"):
            self._received = time.perf_counter()
        return answer


def _submission(settings: Settings, core: Core) -> Submission:
    placement = RegionPlacement(
        regions=settings.regions, facts=Regions(core.table), backlog=Counters(core.table, core.layout), clock=core.clock
    )
    return Submission(
        store=core.store, admission=Gate(Policy()), placement=placement, doorbell=core.doorbell, clock=core.clock, ids=core.ids
    )


async def _submit(submission: Submission, seen: Noticing, bells: Bells) -> Took:
    created = seen.after("POST", 1)
    began = time.perf_counter()
    await submission.submit(request(duration=0.0))
    async with asyncio.timeout(30):
        await created
    return Took(total=time.perf_counter() - began, waited=bells.waited)


class FloorOfOne:
    """One job from its transaction to its object, by bare calls in a row."""

    def __init__(self, found: Fleet, floor: Floor) -> None:
        self._fleet = found
        self._floor = floor
        self._bells = Bells(found.clients.sqs)
        self._queue: str | None = None

    async def run(self, *, waiting: bool) -> Took:
        """What is to be written is made before, and what was received is deleted after."""
        transaction, job_id = await self._transaction()
        sqs = self._bells
        if self._queue is None:
            self._queue = (await sqs.get_queue_url(QueueName=self._fleet.settings.dispatch_queue(REGION)))["QueueUrl"]
        body = json.dumps({"kind": READY, "job_id": job_id})
        receiving = asyncio.create_task(self._receive()) if waiting else None
        if receiving is not None:
            await asyncio.sleep(0.03)
        began = time.perf_counter()
        await self._fleet.clients.dynamodb.transact_write_items(TransactItems=transaction)
        await sqs.send_message(QueueUrl=self._queue, MessageBody=body)
        received = await (receiving or self._receive())
        (entry,) = await self._floor.look(64)
        head = await self._floor.claim(entry)
        await self._floor.specifications([head])
        await self._floor.create(head)
        took = Took(total=time.perf_counter() - began, waited=self._bells.waited if waiting else 0.0)
        entries = [{"Id": str(number), "ReceiptHandle": one["ReceiptHandle"]} for number, one in enumerate(received["Messages"])]
        await sqs.delete_message_batch(QueueUrl=self._queue, Entries=entries)
        return took

    async def _receive(self) -> Any:
        return await self._bells.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)

    async def _transaction(self) -> tuple[list[items.Item], str]:
        head = next(heads(1))
        core = self._fleet.core
        spec = await core.store._specifications.prepare(specification(head))
        actions = core.store._actions(transitions.submitted(head), 0)
        return [*actions, core.store._put(spec)], head.id

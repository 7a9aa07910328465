"""How long it takes from a submission to the created object, against the floor: one job at a time, on idle workers.

The fleet: `Submission.submit` (admission, transaction, doorbell), and a dispatcher in this process that waits for doorbells. The floor: one
coroutine that makes the calls one after the other: transaction, send, receive, look, claim, read, create. Both end when the cluster
has answered the create; rounds of both alternate, and the figure is the ratio of the medians.

The emulator's long poll looks for messages every 100 ms, and not at once when one is sent as SQS does. A consumer's receive waits when the
bell is rung, so the floor's does too: it begins before the send. Without that, half a tenth of a second of the emulator's would count as
the fleet's. The ratio to a floor that receives after it has sent, and so never waits, stands in the details.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
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
from shared.store import items
from shared.store.cluster_reports import ClusterReports
from shared.store.counters import Counters
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
        submission = _submission(ours)
        floor = FloorOfOne(bare, Floor(bare, api))
        measures: dict[str, Callable[[], Awaitable[float]]] = {
            "fleet": lambda: _submit(submission, seen),
            "floor": lambda: floor.run(waiting=True),
            "floor without waiting": lambda: floor.run(waiting=False),
        }
        loop = await build(ours.core, ours.clients.sqs, api, region=REGION, owner="bench")
        stop = asyncio.Event()
        running = asyncio.create_task(loop.run(stop))
        times: dict[str, list[float]] = {name: [] for name in measures}
        for number in range(rounds + WARM):
            for name, measure in measures.items():
                took = await measure()
                # So that the next receive waits anew, at another point of the emulator's beat.
                await asyncio.sleep(0.05 + 0.13 * (number % 7) / 7)
                if number >= WARM:
                    times[name].append(took)
        stop.set()
        await running
    medians = {name: statistics.median(found) for name, found in times.items()}
    return [
        Figure(
            name="submit to created, median",
            value=medians["fleet"] / medians["floor"],
            bound=2.0,
            unit="x the floor's",
            note=f"{rounds} jobs, one at a time; in both, a long poll of the emulator waits for the bell",
            details={
                "median_milliseconds": {name: round(value * 1000, 1) for name, value in medians.items()},
                "ratio_without_waiting": round(medians["fleet"] / medians["floor without waiting"], 2),
            },
        )
    ]


def _submission(found: Fleet) -> Submission:
    core = found.core
    placement = RegionPlacement(
        regions=found.settings.regions, reports=ClusterReports(core.table), backlog=Counters(core.table, core.layout), clock=core.clock
    )
    return Submission(
        store=core.store, admission=Gate(Policy()), placement=placement, doorbell=core.doorbell, clock=core.clock, ids=core.ids
    )


async def _submit(submission: Submission, seen: Noticing) -> float:
    created = seen.after("POST", 1)
    began = time.perf_counter()
    await submission.submit(request(duration=0.0))
    async with asyncio.timeout(30):
        await created
    return time.perf_counter() - began


class FloorOfOne:
    """One job from its transaction to its object, by bare calls in a row."""

    def __init__(self, found: Fleet, floor: Floor) -> None:
        self._fleet = found
        self._floor = floor
        self._queue: str | None = None

    async def run(self, *, waiting: bool) -> float:
        """Seconds. What is to be written is made before, and what was received is deleted after."""
        transaction, job_id = await self._transaction()
        sqs = self._fleet.clients.sqs
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
        took = time.perf_counter() - began
        entries = [{"Id": str(number), "ReceiptHandle": one["ReceiptHandle"]} for number, one in enumerate(received["Messages"])]
        await sqs.delete_message_batch(QueueUrl=self._queue, Entries=entries)
        return took

    async def _receive(self) -> Any:
        return await self._fleet.clients.sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)

    async def _transaction(self) -> tuple[list[items.Item], str]:
        head = next(heads(1))
        core = self._fleet.core
        spec = await core.store._specifications.prepare(specification(head))
        actions = core.store._actions(transitions.submitted(head), 0)
        return [*actions, core.store._put(spec)], head.id

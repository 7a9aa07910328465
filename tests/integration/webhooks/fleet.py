"""What tests of deliveries need: jobs in a table, webhooks, a worker of its own clock-work, and receivers that note what they are sent."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from shared.aws import connect
from shared.clock import SystemClock
from shared.ids import RandomIds
from shared.jobs import transitions
from shared.jobs.change import Moment
from shared.jobs.model import Claim, ClusterObject, Event, Head
from shared.store.deliveries import Deliveries, DeliveryKey
from shared.store.keys import Layout
from shared.store.table import Table
from shared.store.webhooks import Webhooks
from shared.webhooks.deliveries import Delivery, DeliveryState
from shared.webhooks.model import EVENTS, Webhook
from tests.conftest import FleetResources
from tests.integration.running import Worker, until
from tests.unit.jobs.builders import queued
from tests.unit.webhooks.receivers import Received, Receiver, Respond, answering, receiving
from workers.assembly import Core, assemble
from workers.webhooks.build import SERVICES, Parts, build, stream_loop
from workers.webhooks.loop import WebhookLoop

NAMESPACE = "gco-jobs"


def told(received: Received) -> tuple[str, str]:
    """Id and event of a message."""
    document = json.loads(received.body)
    return received.headers["webhook-id"], document["event"]


def ids(receiver: Receiver) -> Counter[str]:
    """How often each id was received."""
    return Counter(one.headers["webhook-id"] for one in receiver.received)


def events_of(receiver: Receiver, job_id: str) -> list[str]:
    """The events of a job in the order in which they were received."""
    return [event for message, event in map(told, receiver.received) if message.startswith(job_id)]


def failing(times: int, status: str = "500 Broken", **headers: str) -> Respond:
    """An endpoint that fails so many times, and then takes everything."""
    left = [times]

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        left[0] -= 1
        await answering(status, b"not now", **headers)(request, writer) if left[0] >= 0 else await answering()(request, writer)

    return respond


@dataclass
class WebhookWorker(Worker):
    """A running webhook worker."""

    parts: Parts

    async def kill(self) -> None:
        self.parts.courier.lanes._closed = True
        for task in self.parts.courier.lanes._tasks:
            task.cancel()
        await super().kill()
        await asyncio.gather(*self.parts.courier.lanes._tasks, return_exceptions=True)


@dataclass
class WebhookFleet:
    """A bootstrapped fleet with its clients."""

    resources: FleetResources
    aws: Any
    core: Core
    stack: AsyncExitStack
    workers: list[WebhookWorker] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return self.core.table

    @property
    def webhooks(self) -> Webhooks:
        return Webhooks(self.table)

    @property
    def deliveries(self) -> Deliveries:
        return Deliveries(self.table, Layout())

    async def receiver(self, respond: Respond | None = None) -> Receiver:
        """A receiver that takes everything, unless told otherwise."""
        return await self.stack.enter_async_context(receiving(respond or answering()))

    async def silent(self) -> Receiver:
        """A receiver that takes connections and never answers."""
        return await self.stack.enter_async_context(receiving())

    async def subscribe(self, receiver: Receiver, *, events: tuple[Any, ...] = EVENTS, namespace: str | None = NAMESPACE) -> Webhook:
        webhook = Webhook(
            id=RandomIds().job(),
            url=f"http://127.0.0.1:{receiver.port}/hook",
            events=events,
            namespace=namespace,
            created_at=SystemClock().now(),
            created_by="tester",
        )
        await self.webhooks.create(webhook)
        return webhook

    async def parts(self, **options: Any) -> Parts:
        return await build(self.core.settings, self.aws, **options)

    async def worker(self, *, stream: bool = True, aws: Any = None, **options: Any) -> WebhookWorker:
        """A worker that does all; without `stream` somebody else relays."""
        clients = aws or self.aws
        parts = await build(self.core.settings, clients, **options)
        loop = WebhookLoop(parts, stream=stream_loop(parts, clients) if stream else None)
        worker = WebhookWorker.start(loop.run, parts=parts)
        self.workers.append(worker)
        return worker

    async def job(self, *, namespace: str = NAMESPACE, region: str = "us-east-1") -> Head:
        """A job that has been submitted."""
        now = SystemClock().now()
        own = {"id": RandomIds().job(), "stamp": RandomIds().nonce(), "submitted_at": now, "updated_at": now, "ring_at": None}
        head = queued(**own, namespace=namespace, region=region, gpus=0, submitted_by="ada", labels={"team": "vision"})
        return await self.core.store.write(transitions.submitted(head))

    async def running(self, head: Head) -> Head:
        """A queued job comes to run."""
        now = self.moment()
        claim = Claim(owner="test", nonce=now.stamp, claimed_at=now.now, expires_at=now.now)
        entry = next(one for one in await self.core.store.ready(head.region, 1000) if one.job_id == head.id)
        claimed = await self.core.store.claim(entry, claim)
        assert claimed is not None
        placed = ClusterObject(name=f"train-{head.execution}", uid=f"uid-{head.execution}")
        pending = await self.core.store.write(transitions.committed(claimed, placed, self.moment()))
        return await self.core.store.write(transitions.running(pending, None, self.moment()))

    async def ended(self, head: Head) -> Head:
        return await self.core.store.write(transitions.succeeded(head, None, self.moment()))

    async def ran(self, **fields: Any) -> Head:
        """A job that has come and gone: events 1 (queued), 4 (started), 5 (completed)."""
        return await self.ended(await self.running(await self.job(**fields)))

    def moment(self) -> Moment:
        return self.core.changes.moment()

    async def delivery(self, webhook: Webhook, head: Head, number: int) -> Delivery:
        return await self.deliveries.get(DeliveryKey(webhook.id, head.id, number))

    async def until_settled(self, webhook: Webhook, count: int, *, seconds: float = 20.0) -> list[Delivery]:
        """Ask until so many deliveries of a webhook are at their end; gives them."""

        async def settled() -> list[Delivery] | None:
            found = (await self.deliveries.page(webhook.id, limit=1000)).deliveries
            return found if sum(one.state.final for one in found) >= count else None

        return await until(settled, seconds=seconds)

    async def dead_letters(self) -> list[Any]:
        from shared.queues.dead_letters import DeadLetters

        return await DeadLetters(self.aws.sqs, self.core.settings).peek(self.core.settings.events_queue)


@asynccontextmanager
async def running_fleet(resources: FleetResources, **overrides: Any) -> AsyncIterator[WebhookFleet]:
    """A fleet without workers yet; those that a test starts end with it."""
    usual = {"webhook_local": True, "shutdown_seconds": 2.0, "sweep_seconds": 0.2, "regions": ("us-east-1",)}
    settings = resources.settings.model_copy(update=usual | overrides)
    async with AsyncExitStack() as stack:
        aws = await stack.enter_async_context(connect("us-east-1", *SERVICES, "dynamodbstreams", "s3"))
        fleet = WebhookFleet(resources=resources, aws=aws, core=await assemble(settings, aws), stack=stack)
        try:
            yield fleet
        finally:
            await asyncio.gather(*(worker.kill() for worker in fleet.workers))


__all__ = ["DeliveryState", "Event", "events_of", "failing", "ids", "running_fleet", "told", "until"]

"""The webhook worker, put together from settings and clients: the relay, who makes deliveries, who sends them, who sends them again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from shared.aws import Aws
from shared.clock import SystemClock
from shared.ids import RandomIds
from shared.queues.queue import Queue
from shared.secrets import Secrets
from shared.settings import Settings, dead_letter_queue
from shared.store.deliveries import Deliveries
from shared.store.endpoints import Endpoints
from shared.store.keys import Layout
from shared.store.streams import TableStream
from shared.store.table import Table
from shared.store.totals import Totals
from shared.store.webhooks import Webhooks
from shared.webhooks.courier import Courier
from shared.webhooks.fanout import Fanout
from shared.webhooks.health import TableHealth
from shared.webhooks.lanes import Lanes
from shared.webhooks.ports import Health, Sender
from shared.webhooks.rotation import SigningSecrets
from shared.webhooks.sending import HttpSender
from shared.webhooks.standing import Standing
from shared.webhooks.sweeping import DeliverySweeper
from shared.webhooks.urls import UrlRules
from workers.about import cluster_id
from workers.process import owner
from workers.webhooks.events import EventHandler
from workers.webhooks.relay import Relay
from workers.webhooks.stream_loop import StreamLoop
from workers.webhooks.sweep_loop import DeliverySweepLoop

SERVICES = ("dynamodb", "sqs", "secretsmanager")
"""What all of it needs; a process that reads the stream itself needs `dynamodbstreams` too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What the programs of this room are made of."""

    settings: Settings
    queue: Queue
    table: Table
    deliveries: Deliveries
    relay: Relay
    handler: EventHandler
    courier: Courier
    sweeper: DeliverySweeper


async def build(
    settings: Settings, aws: Aws, *, sender: Sender | None = None, health: Health | None = None, lanes: Lanes | None = None
) -> Parts:
    """The parts over the clients of the control region. Raises NotFoundError where a queue is missing (bootstrap makes it)."""
    clock, ids, chance = SystemClock(), RandomIds(), random.Random()
    table = Table(aws.dynamodb, settings.table)
    deliveries = Deliveries(table, Layout.of(settings))
    webhooks = Webhooks(table)
    queue = await Queue.open(aws.sqs, settings.events_queue)
    secrets = SigningSecrets(Secrets(aws.secretsmanager, prefix=settings.secrets), clock)
    courier = Courier(
        deliveries=deliveries,
        sender=sender or HttpSender(rules=UrlRules.of(settings), secrets=secrets, clock=clock),
        health=health
        or TableHealth(
            endpoints=Endpoints(table),
            clock=clock,
            ids=ids,
            chance=chance,
            disable_after=timedelta(seconds=settings.webhook_disable_seconds),
        ),
        standing=Standing(webhooks, clock),
        clock=clock,
        ids=ids,
        chance=chance,
        cluster=cluster_id,
        lease=settings.webhook_lease,
        lanes=lanes,
    )
    return Parts(
        settings=settings,
        queue=queue,
        table=table,
        deliveries=deliveries,
        relay=Relay(queue=queue, webhooks=webhooks, totals=Totals(table)),
        handler=EventHandler(
            fanout=Fanout(deliveries=deliveries, webhooks=webhooks, courier=courier),
            dead_letters=await Queue.open(aws.sqs, dead_letter_queue(settings.events_queue)),
        ),
        courier=courier,
        sweeper=DeliverySweeper(deliveries=deliveries, webhooks=webhooks, courier=courier, clock=clock, chance=chance),
    )


def stream_loop(parts: Parts, aws: Aws) -> StreamLoop:
    """The loop that reads the table's stream."""
    stream = TableStream(aws.dynamodbstreams, aws.dynamodb, parts.settings.table)
    lease = parts.settings.webhook_stream_lease
    return StreamLoop(stream=stream, table=parts.table, relay=parts.relay, owner=owner("webhooks"), clock=SystemClock(), lease=lease)


def sweep_loop(parts: Parts) -> DeliverySweepLoop:
    """The loop that takes on what is due."""
    idle = parts.settings.sweep_seconds
    return DeliverySweepLoop(sweeper=parts.sweeper, marks=parts.deliveries.marks, clock=SystemClock(), idle_seconds=idle)

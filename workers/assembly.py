"""What the workers are made of, put together from settings and clients in one place."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from shared.aws import Aws
from shared.clock import Clock, SystemClock
from shared.ids import Ids, RandomIds
from shared.jobs.changes import Changes
from shared.jobs.ports import Doorbell
from shared.queues.doorbell import SqsDoorbell
from shared.queues.queue import Queue
from shared.settings import Settings
from shared.store.jobs import Jobs
from shared.store.keys import Layout
from shared.store.objects import S3Objects
from shared.store.specifications import Specifications
from shared.store.table import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Core:
    """The parts that every worker needs: the store, a way to change jobs, a doorbell."""

    settings: Settings
    table: Table
    layout: Layout
    objects: S3Objects
    store: Jobs
    changes: Changes
    doorbell: Doorbell
    clock: Clock
    ids: Ids
    chance: random.Random


async def assemble(settings: Settings, aws: Aws, *, regions: Sequence[str] | None = None) -> Core:
    """The core over the clients of the control region; `regions` are those whose doorbells it can ring (all, unless said)."""
    clock, ids, chance = SystemClock(), RandomIds(), random.Random()
    layout = Layout.of(settings)
    table = Table(aws.dynamodb, settings.table)
    objects = S3Objects(aws.s3, settings.bucket)
    store = Jobs(table, Specifications(table, objects), layout)
    names = {region: settings.dispatch_queue(region) for region in regions or settings.regions}
    doorbell = SqsDoorbell({region: await Queue.open(aws.sqs, name) for region, name in names.items()})
    return Core(
        settings=settings,
        table=table,
        layout=layout,
        objects=objects,
        store=store,
        changes=Changes(store=store, doorbell=doorbell, clock=clock, ids=ids, chance=chance),
        doorbell=doorbell,
        clock=clock,
        ids=ids,
        chance=chance,
    )

"""What each process of the fleet runs: the real code over the clients of this world."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from shared.clusters.api import KubernetesApi
from shared.jobs.cancellation import Cancellation
from shared.jobs.changes import Changes
from shared.jobs.regions import RegionControl
from shared.jobs.submission import Submission
from shared.jobs.sweeping import Sweeper
from shared.queues.doorbell import SqsDoorbell
from shared.queues.queue import Queue
from shared.settings import Settings, dead_letter_queue
from shared.store.jobs import Jobs
from shared.store.keys import Layout
from shared.store.objects import S3Objects
from shared.store.regions import Regions
from shared.store.rejections import Rejections
from shared.store.specifications import Specifications
from shared.store.table import Table
from tests.simulation.cluster import SimulatedTransport
from tests.simulation.dynamodb import DynamoDBClient, Tables
from tests.simulation.faults import COMMON, Faults, Gate
from tests.simulation.processes import Clock, Life
from tests.simulation.s3 import Bucket, S3Client
from tests.simulation.sqs import Queues, SqsClient
from tests.simulation.trace import Trace
from workers.assembly import Core
from workers.dispatcher.build import build as build_dispatcher
from workers.ingest.ingest import Ingest
from workers.ingest.loop import IngestLoop
from workers.local.cluster import SimulatedCluster
from workers.observer.build import build as build_observer
from workers.submitting import way_in
from workers.sweeper.build import draining
from workers.sweeper.loop import SweeperLoop

DYNAMODB, SQS, S3, EC2 = "dynamodb", "sqs", "s3", "ec2"


class SeededIds:
    """Implements `shared.ids.Ids` from a seed."""

    def __init__(self, chance: random.Random, clock: Clock) -> None:
        self._chance = chance
        self._clock = clock

    def job(self) -> str:
        """A UUID version 7."""
        milliseconds = int(self._clock.now().timestamp() * 1000)
        bits = self._chance.getrandbits(74)
        return str(UUID(int=milliseconds << 80 | 7 << 76 | (bits >> 62) << 64 | 2 << 62 | bits & (1 << 62) - 1))

    def nonce(self) -> str:
        """16 hexadecimal digits."""
        return f"{self._chance.getrandbits(64):016x}"


@dataclass(frozen=True, kw_only=True)
class Services:
    """The world outside of the processes."""

    settings: Settings
    tables: Tables
    queues: Queues
    bucket: Bucket
    clusters: dict[str, SimulatedCluster]
    prices: Prices
    faults: Faults
    trace: Trace
    chance: random.Random

    def gate(self, service: str, life: Life) -> Gate:
        """The way of a process to a service."""
        return Gate(service, life, self.faults, self.trace)


class Prices:
    """What spot capacity costs: too much until a time, then little."""

    def __init__(self, cheap_from: float) -> None:
        self.cheap_from = cheap_from

    def at(self, seconds: float) -> Decimal:
        """USD an hour at a time of the run."""
        return Decimal("0.25") if seconds >= self.cheap_from else Decimal("9.75")


def _core(services: Services, life: Life) -> Core:
    """The parts that every worker needs, for one life of one process."""
    settings, clock = services.settings, life.process.clock
    chance = random.Random(services.chance.getrandbits(64))
    ids = SeededIds(chance, clock)
    layout = Layout()
    table = Table(DynamoDBClient(services.tables, services.gate(DYNAMODB, life), chance), settings.table)
    objects = S3Objects(S3Client(services.bucket, services.gate(S3, life)), settings.bucket)
    store = Jobs(table, Specifications(table, objects), layout)
    sqs = _sqs(services, life)
    doorbell = SqsDoorbell({region: Queue(sqs, settings.dispatch_queue(region)) for region in settings.regions})
    changes = Changes(store=store, doorbell=doorbell, clock=clock, ids=ids, chance=chance)
    return Core(
        settings=settings,
        table=table,
        layout=layout,
        objects=objects,
        store=store,
        changes=changes,
        doorbell=doorbell,
        clock=clock,
        ids=ids,
        chance=chance,
    )


def _sqs(services: Services, life: Life) -> SqsClient:
    return SqsClient(services.queues, services.gate(SQS, life))


def _api(services: Services, life: Life, region: str) -> KubernetesApi:
    """The API server of a region."""
    return KubernetesApi(SimulatedTransport(services.clusters[region], services.gate(region, life)), clock=life.process.clock)


async def dispatcher(services: Services, life: Life, region: str) -> None:
    """One dispatcher of a region."""
    core = _core(services, life)
    loop = await build_dispatcher(core, _sqs(services, life), _api(services, life, region), region=region, owner=life.name)
    await loop.run(life.stop)


async def observer(services: Services, life: Life, region: str) -> None:
    """One observer of a region."""
    await build_observer(_core(services, life), _api(services, life, region), region=region).run(life.stop)


async def sweeper(services: Services, life: Life) -> None:
    """One sweeper of all regions."""
    core = _core(services, life)
    gate = services.gate(EC2, life)

    class GatedPrices:
        async def price(self, region: str, instance_type: str) -> Decimal | None:
            """As Ec2SpotPrices, which knows no price where EC2 doesn't answer."""
            found: Decimal | None = await gate.call(
                f"DescribeSpotPriceHistory {region} {instance_type}",
                lambda: services.prices.at(life.process.loop.time()),
                possible=COMMON,
                failure=lambda fault: None,
            )
            return found

    settings = services.settings
    swept = Sweeper(
        store=core.store,
        changes=core.changes,
        doorbell=core.doorbell,
        prices=GatedPrices(),
        draining=draining(core),
        clock=core.clock,
        lease=settings.lease,
        idle=timedelta(seconds=settings.sweep_seconds),
    )
    await SweeperLoop(sweeper=swept, regions=settings.regions, clock=core.clock, idle_seconds=settings.sweep_seconds).run(life.stop)


class Api:
    """The door: a process that does nothing by itself, and serves requests as they come."""

    def __init__(self) -> None:
        self.submission: Submission
        self.cancellation: Cancellation
        self.control: RegionControl

    async def main(self, services: Services, life: Life) -> None:
        """Be there until killed or stopped."""
        core = _core(services, life)
        self.submission = way_in(core).submission
        self.cancellation = Cancellation(store=core.store, changes=core.changes)
        self.control = RegionControl(
            statuses=Regions(core.table), regions=services.settings.regions, doorbell=core.doorbell, clock=core.clock
        )
        await life.stop.wait()


async def ingest(services: Services, life: Life) -> None:
    """Takes jobs from the submissions queue."""
    core, sqs = _core(services, life), _sqs(services, life)
    accepting = way_in(core)
    name = services.settings.submissions_queue
    handling = Ingest(
        queue=name,
        dead_letters=await Queue.open(sqs, dead_letter_queue(name)),
        submission=accepting.submission,
        gate=accepting.gate,
        rejections=Rejections(core.table),
        objects=core.objects,
        clock=core.clock,
    )
    queue = await Queue.open(sqs, name)
    await IngestLoop(queue=queue, ingest=handling, grace_seconds=services.settings.shutdown_seconds).run(life.stop)

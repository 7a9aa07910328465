"""What each process of the fleet runs: the real code over the clients of this world."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

from shared.clusters.api import KubernetesApi
from shared.clusters.bundles import Bundles
from shared.clusters.cluster import KubernetesCluster
from shared.clusters.feeds import job_feed, node_feed, pod_feed
from shared.clusters.logs import ClusterLogs
from shared.clusters.nodes import NodeView
from shared.clusters.pods import PodIndex, PodView
from shared.errors import UnavailableError
from shared.jobs.cancellation import Cancellation
from shared.jobs.changes import Changes
from shared.jobs.dispatch import Dispatch
from shared.jobs.head_cache import HeadCache
from shared.jobs.observation import Observation
from shared.jobs.placement import RegionPlacement
from shared.jobs.stopping import Stopping
from shared.jobs.submission import Admitted, JobRequest, Submission
from shared.jobs.sweeping import Sweeper
from shared.jobs.waking import Waking
from shared.queues.doorbell import SqsDoorbell
from shared.queues.queue import Queue
from shared.settings import Settings, dead_letter_queue
from shared.store.cluster_reports import ClusterReports
from shared.store.counters import Counters
from shared.store.jobs import Jobs
from shared.store.keys import Layout
from shared.store.objects import S3Objects
from shared.store.specifications import Specifications
from shared.store.table import Table
from tests.simulation.cluster import SimulatedTransport
from tests.simulation.dynamodb import TABLE, DynamoDBClient, Tables
from tests.simulation.faults import COMMON, Faults, Gate
from tests.simulation.processes import Clock, Life
from tests.simulation.s3 import Bucket, S3Client
from tests.simulation.sqs import Queues, SqsClient
from tests.simulation.trace import Trace
from tests.simulation.workload import request_of
from workers.dispatcher.loop import DispatcherLoop
from workers.local.cluster import SimulatedCluster
from workers.observer.loop import ObserverLoop
from workers.sweeper.loop import SweeperLoop

DYNAMODB, SQS, S3, EC2 = "dynamodb", "sqs", "s3", "ec2"
GRACE_SECONDS = 20.0
SLOTS = 8


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
    lease: timedelta


class Prices:
    """What spot capacity costs: too much until a time, then little."""

    def __init__(self, cheap_from: float) -> None:
        self.cheap_from = cheap_from

    def at(self, seconds: float) -> Decimal:
        """USD an hour at a time of the run."""
        return Decimal("0.25") if seconds >= self.cheap_from else Decimal("9.75")


class Parts:
    """The parts that every worker needs, for one life of one process."""

    def __init__(self, services: Services, life: Life) -> None:
        self.services = services
        self.settings = services.settings
        self.clock = life.process.clock
        self.chance = random.Random(services.chance.getrandbits(64))
        self.ids = SeededIds(self.chance, self.clock)
        self._life = life
        self.layout = Layout()
        self.table = Table(DynamoDBClient(services.tables, self.gate(DYNAMODB), self.chance), TABLE)
        self.objects = S3Objects(S3Client(services.bucket, self.gate(S3)), "fleet")
        self.store = Jobs(self.table, Specifications(self.table, self.objects), self.layout)
        self.sqs = SqsClient(services.queues, self.gate(SQS))
        dispatch = {region: Queue(self.sqs, f"https://sqs/{self.settings.dispatch_queue(region)}") for region in self.settings.regions}
        self.doorbell = SqsDoorbell(dispatch)
        self.changes = Changes(store=self.store, doorbell=self.doorbell, clock=self.clock, ids=self.ids, chance=self.chance)

    def gate(self, service: str) -> Gate:
        """The way of this process to a service."""
        return Gate(service, self._life, self.services.faults, self.services.trace)

    def api_of(self, region: str) -> KubernetesApi:
        """The API server of a region."""
        return KubernetesApi(SimulatedTransport(self.services.clusters[region], self.gate(region)), clock=self.clock)

    def stopping(self, cluster: KubernetesCluster, logs: ClusterLogs) -> Stopping:
        """The part that ends what runs."""
        return Stopping(store=self.store, cluster=cluster, render=Bundles(), changes=self.changes, logs=logs, clock=self.clock)


async def dispatcher(services: Services, life: Life, region: str) -> None:
    """One dispatcher of a region."""
    parts = Parts(services, life)
    api = parts.api_of(region)
    cluster = KubernetesCluster(api)
    stopping = parts.stopping(cluster, ClusterLogs(api, parts.objects, clock=parts.clock))
    dispatch = Dispatch(
        region=region,
        owner=life.name,
        store=parts.store,
        cluster=cluster,
        render=Bundles(),
        stopping=stopping,
        changes=parts.changes,
        clock=parts.clock,
        ids=parts.ids,
        chance=parts.chance,
        lease=services.lease,
    )
    name = services.settings.dispatch_queue(region)
    loop = DispatcherLoop(
        queue=await Queue.open(parts.sqs, name),
        dead_letters=await Queue.open(parts.sqs, dead_letter_queue(name)),
        dispatch=dispatch,
        stopping=stopping,
        waking=Waking(store=parts.store, changes=parts.changes, doorbell=parts.doorbell, clock=parts.clock),
        slots=SLOTS,
        grace_seconds=GRACE_SECONDS,
    )
    await loop.run(life.stop)


async def observer(services: Services, life: Life, region: str) -> None:
    """One observer of a region."""
    parts = Parts(services, life)
    api = parts.api_of(region)
    cluster = KubernetesCluster(api)
    index = PodIndex()
    logs = ClusterLogs(api, parts.objects, pods=index, clock=parts.clock)

    async def report(nodes: list[NodeView], pods: list[PodView]) -> None:
        """Placement is not what is tried here."""

    observation = Observation(
        region=region,
        store=parts.store,
        cluster=cluster,
        render=Bundles(),
        changes=parts.changes,
        stopping=parts.stopping(cluster, logs),
        logs=logs,
        heads=HeadCache(parts.store),
        clock=parts.clock,
    )
    loop = ObserverLoop(
        observation=observation,
        jobs=job_feed(api),
        pods=pod_feed(api),
        nodes=node_feed(api),
        index=index,
        report=report,
        grace_seconds=GRACE_SECONDS,
    )
    await loop.run(life.stop)


async def sweeper(services: Services, life: Life) -> None:
    """One sweeper of all regions."""
    parts = Parts(services, life)
    gate = parts.gate(EC2)

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

    swept = Sweeper(
        store=parts.store, changes=parts.changes, doorbell=parts.doorbell, prices=GatedPrices(), clock=parts.clock, lease=services.lease
    )
    loop = SweeperLoop(sweeper=swept, regions=services.settings.regions, clock=parts.clock, idle_seconds=services.settings.sweep_seconds)
    await loop.run(life.stop)


class Admission:
    """Admits everything: the rules of admission have tests of their own, and none of them concerns time or faults."""

    def admit(self, request: JobRequest) -> Admitted:
        """The manifest's name."""
        return Admitted(name=request.manifest["metadata"]["name"], gpus=0)


class Api:
    """The door: a process that does nothing by itself, and serves requests as they come."""

    def __init__(self) -> None:
        self.submission: Submission
        self.cancellation: Cancellation

    async def main(self, services: Services, life: Life) -> None:
        """Be there until killed or stopped."""
        parts = Parts(services, life)
        self.submission = _submission(parts)
        self.cancellation = Cancellation(store=parts.store, changes=parts.changes)
        await life.stop.wait()


async def ingest(services: Services, life: Life) -> None:
    """Takes submissions from the queue. A message comes until it is deleted; its id is the idempotency key."""
    parts = Parts(services, life)
    submission = _submission(parts)
    queue = await Queue.open(parts.sqs, services.settings.submissions_queue)
    while not life.stop.is_set():
        try:
            for message in await queue.receive(wait_seconds=20, visibility=60):
                content = json.loads(message.body)
                request = request_of(content["request"], key=content["key"], scope="queue")
                result = await submission.submit(request)
                services.trace.step(life.name, f"accepted {result.head.id} ({'new' if result.created else 'known'})")
                await queue.delete([message])
        except UnavailableError:
            await asyncio.sleep(1.0)


def _submission(parts: Parts) -> Submission:
    placement = RegionPlacement(
        regions=parts.settings.regions,
        reports=ClusterReports(parts.table),
        backlog=Counters(parts.table, parts.layout),
        clock=parts.clock,
    )
    return Submission(
        store=parts.store, admission=Admission(), placement=placement, doorbell=parts.doorbell, clock=parts.clock, ids=parts.ids
    )

"""What a door needs of the core, put together in one place, so that the server, Lambda, the embedded fleet and the tests have the same."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shared.aws import Aws, connect
from shared.clock import Clock
from shared.errors import NotHereError
from shared.jobs.cancellation import Cancellation
from shared.jobs.model import Head
from shared.jobs.submission import Submission
from shared.policy import Policy
from shared.policy.gate import Gate
from shared.queues.dead_letters import DeadLetters
from shared.secrets import Secrets
from shared.settings import Settings
from shared.store.api_keys import ApiKeys
from shared.store.cluster_reports import ClusterReports
from shared.store.counters import Counters
from shared.store.history import History
from shared.store.jobs import Jobs
from shared.store.listing import Listing
from shared.store.objects import S3Objects
from shared.store.rejections import Rejections
from shared.store.table import Table
from shared.store.templates import Templates
from shared.store.totals import Totals
from shared.store.webhooks import Webhooks
from shared.webhooks.registration import Registration
from shared.webhooks.urls import UrlRules
from workers import assembly, submitting
from workers.api.cluster_access import ClusterAccess
from workers.api.dispatch_pass import DispatchPass, Poll
from workers.api.following import Following
from workers.api.live_logs import LiveLogs
from workers.loops import Loops

if TYPE_CHECKING:
    from shared.clusters.api import KubernetesApi
    from shared.clusters.log_items import Choice, Item, Source
    from shared.clusters.log_positions import Position
    from shared.costs.reports import CostReports


class LogReader(Protocol):
    """Reads the logs of what runs, from its cluster."""

    def read(self, head: Head, *, pod: str | None, container: str | None, tail: int | None) -> AsyncIterator[bytes]:
        """The log of the head's execution as it stands; of several containers one after the other, each behind a line with its name.

        Raises NotFoundError for an unknown pod or container, ConflictError while none has started, UnavailableError.
        """
        ...

    async def follow(self, head: Head, choice: Choice, position: Position | None) -> Follower:
        """Follow the logs of the head's object, which is on its cluster. Raises UnavailableError."""
        ...


class Follower(Protocol):
    """Tells what containers write until their Job has ended, and where it stands after each line."""

    @property
    def position(self) -> Position:
        """Where it stands."""
        ...

    def items(self) -> AsyncGenerator[Item, None]:
        """What there is to tell, to the end."""
        ...

    def position_after(self, source: Source, at: int) -> str:
        """Move the position over the next line that was told, and give it as text."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Core:
    """The services behind the doors. `clusters`, `poll` and `logs` are None in a process that reaches no cluster, `costs` without a worker
    that measures them."""

    settings: Settings
    region: str
    policy: Policy
    gate: Gate
    clock: Clock
    table: Table
    jobs: Jobs
    objects: S3Objects
    submission: Submission
    cancellation: Cancellation
    listing: Listing
    history: History
    rejections: Rejections
    counters: Counters
    reports: ClusterReports
    dead_letters: DeadLetters
    api_keys: ApiKeys
    templates: Templates
    totals: Totals
    webhooks: Webhooks
    registration: Registration
    webhook_urls: UrlRules
    clusters: ClusterAccess | None = None
    poll: Poll | None = None
    logs: LogReader | None = None
    costs: CostReports | None = None
    following: Following = field(default_factory=Following)
    loops: Loops = field(default_factory=Loops)
    """The loops of workers that run in this process beside the API."""
    look_seconds: float = 1.0
    """How soon a follower of logs asks again whether its job goes on; later, while nothing changes."""

    async def cluster(self) -> KubernetesApi:
        """The API server of the cluster of this API's region. Raises NotHereError, UnavailableError."""
        if self.clusters is None:
            raise NotHereError(f"this process reaches no cluster; an API in {self.region} that does answers this")
        return await self.clusters.api(self.region)

    async def cluster_streams(self) -> KubernetesApi:
        """The same for streams that stand for long, which then take no connection that others wait for."""
        if self.clusters is None:
            return await self.cluster()
        return await self.clusters.api(self.region, streams=True)


async def build(settings: Settings, aws: Aws, *, access: ClusterAccess | None = None, region: str | None = None) -> Core:
    """The core over the clients of the control region, for the API of a region: the control region where that has a cluster, unless said.

    Raises PolicyFileError, which is told before AWS is asked anything, and NotFoundError where a queue is missing (bootstrap makes it).

    With `access` to clusters, running logs can be read and a dispatch pass made; whoever made it closes it.
    """
    gate = submitting.gate(settings)
    parts = await assembly.assemble(settings, aws)
    way_in = submitting.way_in(parts, gate)
    if region is None:
        region = settings.control_region if settings.control_region in settings.regions else settings.regions[0]
    webhooks = Webhooks(parts.table)
    reaches = access if access is not None and access.any else None
    return Core(
        settings=settings,
        region=region,
        policy=way_in.gate.policy,
        gate=way_in.gate,
        clock=parts.clock,
        table=parts.table,
        jobs=parts.store,
        objects=parts.objects,
        submission=way_in.submission,
        cancellation=Cancellation(store=parts.store, changes=parts.changes),
        listing=Listing(parts.table, settings.regions),
        history=History(parts.table),
        rejections=Rejections(parts.table),
        counters=way_in.counters,
        reports=way_in.reports,
        dead_letters=DeadLetters(aws.sqs, settings),
        api_keys=ApiKeys(parts.table),
        templates=Templates(parts.table, parts.objects),
        totals=Totals(parts.table),
        webhooks=webhooks,
        registration=Registration(webhooks, Secrets(aws.secretsmanager, prefix=settings.table)),
        webhook_urls=UrlRules.of(settings),
        clusters=reaches,
        poll=DispatchPass(parts, reaches, region) if reaches else None,
        logs=LiveLogs(reaches) if reaches else None,
    )


@asynccontextmanager
async def open_core(settings: Settings, *, access: ClusterAccess | None = None) -> AsyncIterator[Core]:
    """The core with clients of its own, which are closed at the end."""
    async with connect(settings.control_region, "dynamodb", "sqs", "s3", "secretsmanager") as aws:
        yield await build(settings, aws, access=access)

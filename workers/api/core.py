"""What a door needs of the core, put together in one place, so that the server, Lambda, the embedded fleet and the tests have the same."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from shared.aws import Aws, connect
from shared.clock import Clock
from shared.errors import NotHereError
from shared.jobs.cancellation import Cancellation
from shared.jobs.model import Head
from shared.jobs.submission import Submission
from shared.policy import Policy
from shared.policy.gate import Gate
from shared.settings import Settings
from shared.store.cluster_reports import ClusterReports
from shared.store.counters import Counters
from shared.store.history import History
from shared.store.jobs import Jobs
from shared.store.listing import Listing
from shared.store.objects import S3Objects
from shared.store.regions import Regions
from shared.store.table import Table
from shared.store.totals import Totals
from workers import assembly, submitting
from workers.api.cluster_access import ClusterAccess
from workers.api.following import Following
from workers.api.later import later
from workers.loops import Loops

if TYPE_CHECKING:
    from shared.clusters.api import KubernetesApi
    from shared.clusters.log_items import Choice, Item, Source
    from shared.clusters.log_positions import Position
    from shared.costs.reports import CostReports
    from shared.health.reading import KeptHealth
    from shared.jobs.regions import RegionControl
    from shared.metrics.source import MetricSource
    from shared.queues.dead_letters import DeadLetters
    from shared.secrets import Secrets
    from shared.store.api_keys import ApiKeys
    from shared.store.rejections import Rejections
    from shared.store.templates import Templates
    from shared.store.webhooks import Webhooks
    from shared.webhooks.registration import Registration
    from shared.webhooks.urls import UrlRules
    from workers.api.dispatch_pass import Poll
    from workers.costing import Costing


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
    """The services behind the doors. `clusters`, `poll` and `logs` are None in a process that reaches no cluster; `costs`, those of this
    region, and `costing`, those of all, where nothing knows of them."""

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
    regions: Regions
    region_control: RegionControl
    dead_letters: DeadLetters
    api_keys: ApiKeys
    templates: Templates
    totals: Totals
    webhooks: Webhooks
    registration: Registration
    secrets: Secrets
    webhook_urls: UrlRules
    health: KeptHealth
    metrics: MetricSource
    clusters: ClusterAccess | None = None
    poll: Poll | None = None
    logs: LogReader | None = None
    costs: CostReports | None = None
    costing: Costing | None = None
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

    With `access` to clusters, running logs can be read and a dispatch pass made; whoever made it closes it. What only some doors ask for is
    made by the first that does (`workers.api.later`).
    """
    gate = submitting.gate(settings)
    parts = await assembly.assemble(settings, aws)
    way_in = submitting.way_in(parts, gate)
    if region is None:
        region = settings.control_region if settings.control_region in settings.regions else settings.regions[0]
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
        rejections=later(lambda: _rejections(parts)),
        counters=way_in.counters,
        reports=way_in.reports,
        regions=Regions(parts.table),
        region_control=later(lambda: _region_control(parts)),
        dead_letters=later(lambda: _dead_letters(aws, settings)),
        api_keys=later(lambda: _api_keys(parts)),
        templates=later(lambda: _templates(parts)),
        totals=Totals(parts.table),
        webhooks=later(lambda: _webhooks(parts)),
        registration=later(lambda: _registration(parts, aws)),
        secrets=later(lambda: _secrets(parts, aws)),
        webhook_urls=later(lambda: _webhook_urls(settings)),
        health=later(lambda: _health(settings, aws, parts)),
        metrics=later(lambda: _metrics(settings, aws, parts)),
        clusters=reaches,
        poll=_poll(parts, reaches, region) if reaches else None,
        logs=_logs(reaches) if reaches else None,
        costs=later(lambda: _costing(parts, aws).region(region)) if _has_parquet() else None,
        costing=later(lambda: _costing(parts, aws)) if _has_parquet() else None,
    )


def _health(settings: Settings, aws: Aws, parts: assembly.Core) -> KeptHealth:
    from shared.health.reading import KeptHealth
    from shared.health.sources import health_reader

    return KeptHealth(health_reader(settings, aws, parts.clock), parts.clock)


def _metrics(settings: Settings, aws: Aws, parts: assembly.Core) -> MetricSource:
    from shared.metrics.source import MetricSource

    return MetricSource(settings, aws.elsewhere("cloudwatch", settings.control_region), parts.clock)


def _region_control(parts: assembly.Core) -> RegionControl:
    from shared.jobs.regions import RegionControl

    regions = Regions(parts.table)
    return RegionControl(statuses=regions, regions=parts.settings.regions, doorbell=parts.doorbell, clock=parts.clock)


def _rejections(parts: assembly.Core) -> Rejections:
    from shared.store.rejections import Rejections

    return Rejections(parts.table)


def _dead_letters(aws: Aws, settings: Settings) -> DeadLetters:
    from shared.queues.dead_letters import DeadLetters

    return DeadLetters(aws.sqs, settings)


def _api_keys(parts: assembly.Core) -> ApiKeys:
    from shared.store.api_keys import ApiKeys

    return ApiKeys(parts.table)


def _templates(parts: assembly.Core) -> Templates:
    from shared.store.templates import Templates

    return Templates(parts.table, parts.objects)


def _webhooks(parts: assembly.Core) -> Webhooks:
    from shared.store.webhooks import Webhooks

    return Webhooks(parts.table)


def _registration(parts: assembly.Core, aws: Aws) -> Registration:
    from shared.webhooks.registration import Registration

    return Registration(_webhooks(parts), _secrets(parts, aws))


def _secrets(parts: assembly.Core, aws: Aws) -> Secrets:
    from shared.secrets import Secrets

    return Secrets(aws.secretsmanager, prefix=parts.settings.secrets)


def _webhook_urls(settings: Settings) -> UrlRules:
    from shared.webhooks.urls import UrlRules

    return UrlRules.of(settings)


def _has_parquet() -> bool:
    """Whether reports of costs can be read here. On Lambda the function that takes submissions doesn't bring what is so large."""
    return find_spec("pyarrow") is not None


def _costing(parts: assembly.Core, aws: Aws) -> Costing:
    from workers.costing import costing

    return costing(parts.settings, aws, clock=parts.clock)


def _poll(parts: assembly.Core, reaches: ClusterAccess, region: str) -> Poll:
    from workers.api.dispatch_pass import DispatchPass

    return DispatchPass(parts, reaches, region)


def _logs(reaches: ClusterAccess) -> LogReader:
    from workers.api.live_logs import LiveLogs

    return LiveLogs(reaches)


@asynccontextmanager
async def open_core(settings: Settings, *, access: ClusterAccess | None = None) -> AsyncIterator[Core]:
    """The core with clients of its own, which are closed at the end."""
    async with connect(settings.control_region, "dynamodb", "sqs", "s3", "secretsmanager") as aws:
        yield await build(settings, aws, access=access)

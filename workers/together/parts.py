"""The workers that can run beside the API in one process, each as a loop, composed as in the programs of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from shared.aws import Aws
from shared.clusters.api import KubernetesApi
from shared.costs.sources import region_prices
from shared.health.beats import Progress
from shared.queues.queue import Queue
from shared.settings import Settings
from workers import assembly
from workers.costs.build import SERVICES as COST_SERVICES
from workers.costs.build import build as build_costs
from workers.costs.loop import CostLoop
from workers.dispatcher.build import build as build_dispatcher
from workers.ingest.ingest import build as build_ingest
from workers.ingest.loop import IngestLoop
from workers.metrics.worker import SERVICES as METRICS_SERVICES
from workers.metrics.worker import metrics_worker
from workers.observer.build import build as build_observer
from workers.observer.usage import usage_account
from workers.process import owner
from workers.sweeper.build import build as build_sweeper
from workers.webhooks.build import SERVICES as WEBHOOK_SERVICES
from workers.webhooks.build import build as build_webhooks
from workers.webhooks.build import stream_loop
from workers.webhooks.loop import WebhookLoop

Run = Callable[[asyncio.Event], Awaitable[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A loop that can be started."""

    run: Run
    owner: str | None = None
    passes: Progress | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """What the loops of a process stand on; what one opens for itself goes with the stack."""

    settings: Settings
    region: str
    aws: Aws
    shared: assembly.Core
    api: KubernetesApi
    """The region's cluster."""
    stack: AsyncExitStack


async def _dispatcher(ground: Ground) -> Part:
    own = owner(ground.region)
    loop = await build_dispatcher(ground.shared, ground.aws.sqs, ground.api, region=ground.region, owner=own)
    return Part(run=loop.run, owner=own, passes=loop.passes)


async def _observer(ground: Ground) -> Part:
    prices = region_prices(ground.settings, ground.aws, ground.region, ground.shared.clock)
    usage = usage_account(ground.shared, ground.api, prices, region=ground.region)
    loop = build_observer(ground.shared, ground.api, region=ground.region, usage=usage)
    return Part(run=loop.run, passes=loop.passes)


async def _sweeper(ground: Ground) -> Part:
    loop = build_sweeper(ground.shared, ground.aws)
    return Part(run=loop.run, passes=loop.passes)


async def _ingest(ground: Ground) -> Part:
    settings = ground.settings
    ingest = await build_ingest(settings, ground.aws)
    queue = await Queue.open(ground.aws.sqs, settings.submissions_queue)
    loop = IngestLoop(queue=queue, ingest=ingest, grace_seconds=settings.shutdown_seconds)
    return Part(run=loop.run, passes=loop.passes)


async def _webhooks(ground: Ground) -> Part:
    parts = await build_webhooks(ground.settings, ground.aws)
    loop = WebhookLoop(parts, stream=stream_loop(parts, ground.aws))
    return Part(run=loop.run, passes=loop.passes)


async def _costs(ground: Ground) -> Part:
    settings = ground.settings
    loop = CostLoop(
        work=await build_costs(settings, ground.aws),
        queue=await Queue.open(ground.aws.sqs, settings.tasks_queue),
        regions=settings.regions,
        grace_seconds=settings.shutdown_seconds,
    )
    return Part(run=loop.run, passes=loop.passes)


async def _metrics(ground: Ground) -> Part:
    loop = await ground.stack.enter_async_context(metrics_worker(ground.settings, ground.aws, [ground.region]))
    return Part(run=loop.run, passes=loop.passes)


_BUILDERS: Final[dict[str, Callable[[Ground], Awaitable[Part]]]] = {
    "dispatcher": _dispatcher,
    "observer": _observer,
    "sweeper": _sweeper,
    "ingest": _ingest,
    "webhooks": _webhooks,
    "costs": _costs,
    "metrics": _metrics,
}
NAMES: Final = tuple(_BUILDERS)
DEFAULT: Final = tuple(name for name in NAMES if name != "metrics")
"""What a region can't do without. Metrics are asked for: they take a port, rights on pods' proxies, and in CloudWatch money."""
OF_A_REGION: Final = ("dispatcher", "observer")
"""The loops that tell of themselves as their region's; the others work for all regions, or tell as their programs do."""
_SERVICES: Final = {"webhooks": (*WEBHOOK_SERVICES, "dynamodbstreams"), "costs": COST_SERVICES, "metrics": METRICS_SERVICES}


def services(names: Sequence[str]) -> Collection[str]:
    """The clients of AWS that the named loops need beside those of the API."""
    return {service for name in names for service in _SERVICES.get(name, ())}


async def build(names: Sequence[str], ground: Ground) -> dict[str, Part]:
    """The named loops. Raises what the loops raise at their start."""
    return {name: await _BUILDERS[name](ground) for name in names}

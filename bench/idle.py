"""What a region costs that has nothing to do: DynamoDB requests a day, of its dispatcher, its observer, the sweeper's part for it, whoever
reads the fleet's health, and what every worker tells of itself.

Everything that these workers do on a clock of their own is done sixty times as often as by default (sweeps, resyncs, reports, snapshots
of health, beats, leases and reads of the table's stream); so an hour passes in a minute, and what is counted of one is multiplied by 24.
Nothing else reaches DynamoDB while nothing happens: the long polls of SQS and the watches of the cluster keep their own time, and an answer
without a message asks nothing of the table. What is asked once at the start is left out.

The webhook worker is one for all regions, and so has a figure of its own: its sweep, its lease on the one shard of the table's stream, and
its looks for other shards (a query and a DescribeTable each). Left out of it, and told in the details: its reads of the stream, one a
second, which are another service with a price of its own (2 cents a day), and which Lambda makes for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Protocol

from bench.figures import Figure, Options
from bench.stage import REGION, Fleet, Stage, fleet, stage
from bench.wire import Wire, aws_operation, wire
from shared.clusters import client
from shared.health.collector import HealthCollector
from shared.health.reading import BUSY_SECONDS, IDLE_SECONDS
from shared.health.sources import health_reader
from shared.jobs.sweeping import Sweeper
from shared.settings import Settings
from shared.spot_prices import FileSpotPrices
from shared.store.beats import Beats
from workers.beating import LOOK_SECONDS, beating
from workers.dispatcher import build as dispatcher
from workers.loops import Passes
from workers.metrics.health import HealthLoop
from workers.observer import build as observer
from workers.observer.loop import ObserverLoop
from workers.sweeper import build as sweeper
from workers.sweeper.loop import SweeperLoop
from workers.webhooks import build as webhooks
from workers.webhooks.loop import WebhookLoop

FASTER = 60.0
DAY = 86_400.0
SETTLE_SECONDS = 3.0


async def run(options: Options) -> list[Figure]:
    """The figures of an idle day."""
    seconds = 20.0 if options.quick else 60.0
    async with stage(nodes="4xg5.12xlarge") as place, wire(place.endpoint, aws_operation) as aws:
        return [await _region(place, aws, seconds), await _webhooks(place, aws, seconds)]


async def _region(place: Stage, aws: Wire, seconds: float) -> Figure:
    async with (
        fleet(place, endpoint=await aws.tap("region")) as found,
        client.connect(kubeconfig=place.kubeconfig(place.cluster), context=REGION) as api,
    ):
        loops: list[Loop] = [
            await dispatcher.build(found.core, found.clients.sqs, api, region=REGION, owner="bench"),
            _faster(observer.build(found.core, api, region=REGION)),
            _sweeper(found, place),
            _health(found),
        ]
        async with _beats(found):
            return await _figure("DynamoDB requests, idle", "a region and day", aws, loops, seconds=seconds, bound=3000)


async def _webhooks(place: Stage, aws: Wire, seconds: float) -> Figure:
    usual = Settings()
    shorter = {name: getattr(usual, name) / FASTER for name in ("sweep_seconds", "webhook_stream_lease_seconds")}
    async with fleet(place, endpoint=await aws.tap("webhooks"), **shorter) as found:
        parts = await webhooks.build(found.settings, found.clients)
        reading = webhooks.stream_loop(parts, found.clients)
        reading._look_seconds /= FASTER
        reading._idle_seconds /= FASTER
        loops: list[Loop] = [WebhookLoop(parts, stream=reading)]
        return await _figure("DynamoDB requests, idle webhook worker", "a day", aws, loops, seconds=seconds, bound=7000)


async def _figure(name: str, unit: str, aws: Wire, loops: Sequence[Loop], *, seconds: float, bound: float) -> Figure:
    """What loops ask for that have nothing to do."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop.run(stop))
        await asyncio.sleep(SETTLE_SECONDS)
        aws.counts.reset()
        await asyncio.sleep(seconds)
        value = aws.counts.of("dynamodb") * DAY / (seconds * FASTER)
        requests = {"requests": aws.counts.by_operation("dynamodb"), "stream": aws.counts.by_operation("streams")}
        details = {"seconds": seconds, "faster": FASTER} | {what: counts for what, counts in requests.items() if counts}
        stop.set()
    note = f"{seconds * FASTER / 3600:.2g} h in {seconds:.0f} s: every interval a {FASTER:.0f}th of its default; extrapolated to a day"
    return Figure(name=name, value=value, bound=bound, unit=unit, note=note, details=details)


class Loop(Protocol):
    """What a worker is, when it has been put together."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        ...


class FastClock:
    """Runs sixty times as fast as the machine's."""

    def __init__(self) -> None:
        self._began = datetime.now(UTC)

    def now(self) -> datetime:
        return self._began + (datetime.now(UTC) - self._began) * FASTER


def _health(found: Fleet) -> HealthLoop:
    reader = health_reader(found.settings.model_copy(update={"regions": (REGION,)}), found.clients, FastClock())
    return HealthLoop(
        reader=reader, collector=HealthCollector(), writer=None, busy_seconds=BUSY_SECONDS / FASTER, idle_seconds=IDLE_SECONDS / FASTER
    )


@asynccontextmanager
async def _beats(found: Fleet) -> AsyncIterator[None]:
    """What the loops of one process of each kind tell, none of which has anything new to say."""
    async with AsyncExitStack() as stack:
        for worker in ("dispatcher", "observer", "sweeper", "ingest", "webhooks", "costs", "metrics"):
            tells = beating(Beats(found.core.table), Passes(), worker=worker, clock=FastClock(), look_seconds=LOOK_SECONDS / FASTER)
            await stack.enter_async_context(tells)
        yield


def _faster(loop: ObserverLoop) -> ObserverLoop:
    """No setting shortens these intervals; the loop is told by hand."""
    loop._resync_seconds /= FASTER
    loop._report_seconds /= FASTER
    return loop


def _sweeper(found: Fleet, place: Stage) -> SweeperLoop:
    core, settings = found.core, found.settings
    prices = FileSpotPrices(place.scratch / "no-prices.json")
    engine = Sweeper(
        store=core.store,
        changes=core.changes,
        doorbell=core.doorbell,
        prices=prices,
        draining=sweeper.draining(core),
        clock=core.clock,
        lease=settings.lease,
    )
    return SweeperLoop(sweeper=engine, regions=settings.regions, clock=core.clock, idle_seconds=settings.sweep_seconds / FASTER)

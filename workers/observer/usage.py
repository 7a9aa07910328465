"""The observer's account of usage: its feeds keep the ledger, which is written to the bucket a few times an hour.

Jobs don't depend on it: what goes wrong here is logged, and tried again.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterable
from datetime import datetime, timedelta
from typing import Final

import structlog

from shared.clock import Clock
from shared.clusters.api import KubernetesApi
from shared.clusters.feeds import Where, other_pod_feed
from shared.clusters.nodes import NodeView
from shared.clusters.pods import PodView
from shared.clusters.watch import Changed, Deleted, Item, Listed
from shared.costs.ledger import Ledger
from shared.costs.model import PodUsage
from shared.costs.price_board import PriceBoard
from shared.costs.prices import PriceSource
from shared.costs.usage_documents import document_key, encode, hour_of
from shared.errors import FleetError
from shared.jobs.ports import Observed
from shared.store.objects import S3Objects
from workers.about import cluster_id
from workers.assembly import Core
from workers.observer.meter import LedgerMeter

log = structlog.get_logger()

TICK_SECONDS: Final = 15.0
"""How often the time is noted; so late after an hour's end the hour is written."""
CLOSE_SECONDS: Final = 5.0


class UsageAccount:
    """Keeps and writes the ledger of one cluster, and knows what executions have cost by it (`meter`), at the prices of a source.

    `others` is the feed of the pods that aren't the fleet's, where these are watched.

    The hour that runs is written every `write_every`. What an observer that is killed has not written, the next one finds on the cluster,
    but for what came and went in between.
    """

    def __init__(
        self,
        ledger: Ledger,
        objects: S3Objects,
        clock: Clock,
        *,
        prices: PriceSource,
        others: AsyncIterable[Item[PodUsage]] | None = None,
        write_every: timedelta,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._objects = objects
        self._clock = clock
        self._others = others
        self._tick_seconds = min(tick_seconds, write_every.total_seconds())
        self._write_every = write_every
        self._written: datetime | None = None
        self._prices = PriceBoard(prices, clock, ledger.nodes.all)
        self.meter = LedgerMeter(ledger, self._prices)

    def job(self, item: Item[Observed]) -> None:
        """What the feed of the fleet's Jobs tells."""
        now, executions = self._clock.now(), self._ledger.executions
        match item:
            case Listed():
                executions.listed({seen.uid: (seen.job_id, seen.execution) for seen in item.objects if not _ended(seen)}, at=now)
            case Changed(object=seen) if not _ended(seen):
                executions.opened(seen.uid, (seen.job_id, seen.execution))
            case Changed(object=seen) | Deleted(object=seen):
                executions.closed(seen.uid, at=now)

    def node(self, item: Item[NodeView]) -> None:
        """What the feed of nodes tells."""
        match item:
            case Listed():
                found = [node.usage for node in item.objects if node.usage is not None]
                self._ledger.nodes.listed(found, at=self._clock.now())
                for usage in found:
                    self._prices.noticed(usage)
            case Changed(object=node) if node.usage is not None:
                self._ledger.nodes.put(node.usage)
                self._prices.noticed(node.usage)
            case Deleted(object=node) if node.usage is not None:
                self._ledger.nodes.gone(node.usage, at=self._clock.now())

    def pod(self, item: Item[PodView]) -> None:
        """What the feed of the fleet's pods tells."""
        match item:
            case Listed():
                self._ledger.pods.listed([pod.usage for pod in item.objects if pod.usage is not None], at=self._clock.now())
            case Changed(object=pod) if pod.usage is not None:
                self._ledger.pods.put(pod.usage)
            case Deleted(object=pod) if pod.usage is not None:
                self._ledger.pods.gone(pod.usage, at=self._clock.now())

    async def run(self) -> None:
        """Note the time, and write what is to be written, again and again."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._prices.run())
            if self._others is not None:
                group.create_task(self._follow(self._others))
            while True:
                await self._pass()
                await asyncio.sleep(self._tick_seconds)

    async def close(self) -> None:
        """Write all that is known, within a few seconds."""
        self._ledger.tick(self._clock.now())
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._write(self._ledger.pending)
        except TimeoutError:
            log.warning("usage not written at the end", hours=[hour.isoformat() for hour in self._ledger.pending])

    async def _follow(self, others: AsyncIterable[Item[PodUsage]]) -> None:
        async for item in others:
            match item:
                case Listed():
                    self._ledger.others.listed(item.objects, at=self._clock.now())
                case Changed():
                    self._ledger.others.put(item.object)
                case Deleted():
                    self._ledger.others.gone(item.object, at=self._clock.now())

    async def _pass(self) -> None:
        now = self._clock.now()
        self._ledger.tick(now)
        running = hour_of(now)
        pending = self._ledger.pending
        if pending and (self._written is None or now - self._written >= self._write_every):
            self._written = now
            await self._write(pending)
        else:
            await self._write([hour for hour in pending if hour < running])

    async def _write(self, hours: list[datetime]) -> None:
        for hour in hours:
            try:
                document = self._ledger.take(hour)
                data = await asyncio.to_thread(encode, document)  # of a large cluster some tenths of a second
                await self._objects.put(document_key(document), data, content_type="application/gzip")
            except FleetError as error:
                self._ledger.put_back(hour)
                log.warning("usage not written", hour=hour.isoformat(), error=str(error))
            except Exception as error:
                self._ledger.put_back(hour)
                log.error("usage not written", hour=hour.isoformat(), exc_info=error)
            except BaseException:
                self._ledger.put_back(hour)
                raise


def _ended(seen: Observed) -> bool:
    return seen.complete or seen.failed_reason is not None


def where(region: str) -> Where:
    """How the objects of a region's cluster are told of."""
    return Where(region=region, cluster=cluster_id(region))


def usage_account(core: Core, api: KubernetesApi, prices: PriceSource, *, region: str) -> UsageAccount:
    """The account of the cluster behind `api`. Its name is of this process only: no other one writes the same objects."""
    place, all_pods = where(region), core.settings.usage_all_pods
    observer = f"{socket.gethostname()}-{core.ids.nonce()}"
    ledger = Ledger(region=region, cluster=place.cluster, observer=observer, all_pods=all_pods)
    return UsageAccount(
        ledger,
        core.objects,
        core.clock,
        prices=prices,
        write_every=timedelta(seconds=core.settings.usage_write_seconds),
        others=other_pod_feed(api, place) if all_pods else None,
    )

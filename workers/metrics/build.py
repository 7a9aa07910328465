"""The metrics worker, put together for all regions that it reaches."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

from shared.aws import Aws
from shared.clock import SystemClock
from shared.clusters.reaching import reach
from shared.metrics.cloudwatch_writing import MetricWriter
from shared.metrics.fetching import DirectFetch, Fetch, ProxyFetch, direct_client
from shared.metrics.rollups import measures_of, rollups_of
from shared.metrics.scraping import CONCURRENCY, Scraper
from shared.metrics.serving import GpuCollector
from shared.metrics.snapshots import Snapshots
from shared.policy.loading import load_policy
from shared.settings import Settings
from shared.store.objects import S3Objects
from workers.metrics.scrapes import Scrapes

SERVICES: Final = ("s3", "cloudwatch")
_DEADLINE: Final = 0.75
"""Of the interval: what a scrape's exporters may take, so that scrapes don't overtake each other."""


def build(settings: Settings, aws: Aws, stack: AsyncExitStack) -> tuple[Scrapes, GpuCollector]:
    """The engine, and what serves its findings. Connections to clusters are made when first needed, and go with the stack.

    Raises InvalidError for a setting that names no measure, PolicyFileError.
    """
    clock = SystemClock()
    collector = GpuCollector(seconds=settings.metrics_seconds, clock=clock)
    scrapes = Scrapes(
        scraper_of=Scrapers(settings, stack).of,
        snapshots=Snapshots(S3Objects(aws.s3, settings.bucket)),
        collector=collector,
        writer=MetricWriter(aws.cloudwatch),
        rollups=rollups_of(settings.metrics_rollups),
        measures=measures_of(settings.metrics_measures),
    )
    return scrapes, collector


class Scrapers:
    """The scrapers of regions, each over one connection to its cluster. Where users may apply what they like, no exporter is believed."""

    def __init__(self, settings: Settings, stack: AsyncExitStack) -> None:
        self._settings = settings
        self._stack = stack
        self._untrusted = load_policy(settings.policy_file).allowed_namespaces
        self._made: dict[str, Scraper] = {}
        self._making = asyncio.Lock()

    async def of(self, region: str) -> Scraper:
        """The scraper of a region. Raises UnavailableError where its cluster can't be reached."""
        async with self._making:
            if region not in self._made:
                self._made[region] = await self._make(region)
            return self._made[region]

    async def _make(self, region: str) -> Scraper:
        settings = self._settings
        api = await self._stack.enter_async_context(reach(settings, region, pool_size=CONCURRENCY + len(settings.metrics_exporters) + 2))
        fetch: Fetch = ProxyFetch(api)
        if settings.metrics_direct:
            fetch = DirectFetch(await self._stack.enter_async_context(direct_client(CONCURRENCY)))
        return Scraper(
            api,
            fetch,
            region=region,
            selectors=settings.metrics_exporters,
            project_labels=settings.metrics_project_labels,
            clock=SystemClock(),
            untrusted=self._untrusted,
            deadline_seconds=settings.metrics_seconds * _DEADLINE,
        )

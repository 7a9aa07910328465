"""A scrape of a region, from its cluster to everybody who reads it: the snapshot for the API, `/metrics`, CloudWatch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

import structlog

from shared.errors import FleetError
from shared.metrics.cloudwatch_writing import MetricWriter
from shared.metrics.rollups import data_of
from shared.metrics.scraping import Scraper
from shared.metrics.series import Rollup
from shared.metrics.serving import GpuCollector
from shared.metrics.snapshot import Snapshot
from shared.metrics.snapshots import Snapshots
from shared.metrics.vocabulary import Measure

log = structlog.get_logger()


class Scrapes:
    """Scrapes regions. `scraper_of` gives the scraper of a region's cluster, which it may have to connect to first."""

    def __init__(
        self,
        *,
        scraper_of: Callable[[str], Awaitable[Scraper]],
        snapshots: Snapshots,
        collector: GpuCollector,
        writer: MetricWriter,
        rollups: Sequence[Rollup],
        measures: Collection[Measure],
    ) -> None:
        self._scraper_of = scraper_of
        self._snapshots = snapshots
        self._collector = collector
        self._writer = writer
        self._rollups = rollups
        self._measures = measures

    async def scrape(self, region: str) -> Snapshot:
        """Scrape a region and hand on what was found; who can't take it misses it, and the others don't.

        Raises UnavailableError where the cluster can't be asked.
        """
        scraper = await self._scraper_of(region)
        snapshot = await scraper.scrape()
        self._collector.put(snapshot)
        try:
            await self._snapshots.put(snapshot)
        except FleetError as error:
            log.warning("snapshot not written", region=region, error=str(error))
        written = await self._writer.write(data_of(snapshot, self._rollups, self._measures))
        for exporter in snapshot.exporters:
            if exporter.error is not None:
                pod = f"{exporter.namespace}/{exporter.pod}"
                log.warning("exporter not read", region=region, node=exporter.node, pod=pod, error=exporter.error)
        log.info(
            "scraped",
            region=region,
            gpus=len(snapshot.gpus),
            exporters=len(snapshot.exporters),
            failed=snapshot.failures,
            seconds=snapshot.seconds,
            metrics=written.data - written.lost,
            requests=written.requests,
        )
        return snapshot

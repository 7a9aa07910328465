"""The latest report on each region's cluster: one item a region, overwritten by its observer."""

from __future__ import annotations

from collections.abc import Sequence

from shared.jobs.placement import ClusterReport
from shared.store import items, keys
from shared.store.table import Table


class ClusterReports:
    """The repository of cluster reports."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def put(self, report: ClusterReport) -> None:
        """Replace the report of a region."""
        await self._table.put(keys.cluster_report(report.region) | items.to_item(report))

    async def latest(self, regions: Sequence[str]) -> dict[str, ClusterReport]:
        """The reports of these regions by region, in one batch read; one that has never been reported is left out."""
        found = await self._table.batch_get([keys.cluster_report(region) for region in regions])
        reports = [items.from_item(ClusterReport, item) for item in found]
        return {report.region: report for report in reports}

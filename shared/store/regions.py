"""What operators decided about regions: one item a region. Implements `shared.jobs.regions.Statuses` and `shared.jobs.placement.Facts`."""

from __future__ import annotations

from collections.abc import Sequence

from shared.jobs.placement import ClusterReport, RegionFacts
from shared.jobs.regions import RegionStatus, StatusChangedError
from shared.store import items, keys
from shared.store.table import ConditionFailedError, Table


class Regions:
    """The repository of regions' statuses. A region that was never drained has no item, so a fleet gains one without any migration."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def status(self, region: str) -> RegionStatus:
        """What stands."""
        item = await self._table.get(keys.region(region))
        return _status(region, item)

    async def statuses(self, regions: Sequence[str]) -> dict[str, RegionStatus]:
        """Those of several regions, every one named."""
        found = {item["region"]: item for item in await self._table.batch_get([keys.region(region) for region in regions])}
        return {region: _status(region, found.get(region)) for region in regions}

    async def facts(self, regions: Sequence[str]) -> dict[str, RegionFacts]:
        """What is known of regions and their clusters, every one named: one batch read."""
        wanted = [key for region in regions for key in (keys.region(region), keys.cluster_report(region))]
        found = {(item["region"], item["sk"]): item for item in await self._table.batch_get(wanted)}
        known = {}
        for region in regions:
            report = found.get((region, keys.cluster_report(region)["sk"]))
            known[region] = RegionFacts(
                report=items.from_item(ClusterReport, report) if report is not None else None,
                drained=_status(region, found.get((region, keys.region(region)["sk"]))).drained,
            )
        return known

    async def write(self, before: RegionStatus, after: RegionStatus) -> RegionStatus:
        """Replace a status that has the revision of `before`. Raises StatusChangedError."""
        condition = {
            "ConditionExpression": "attribute_not_exists(pk) OR revision = :revision" if before.revision == 0 else "revision = :revision",
            "ExpressionAttributeValues": items.to_wire({":revision": before.revision}),
        }
        try:
            await self._table.put(status_item(after), condition=condition)
        except ConditionFailedError as refused:
            current = _status(after.region, refused.items[0])
            if current == after:  # our own write, the answer to which was lost
                return after
            raise StatusChangedError(current) from refused
        return after


def status_item(status: RegionStatus) -> items.Item:
    """The whole item of a status, with its place among what is due in its region."""
    mark = {}
    if status.due is not None:
        mark = {"due_pk": keys.due_partition(status.region, 0), "due_sk": keys.due_order(status.due, "")}
    return keys.region(status.region) | items.to_item(status) | mark


def _status(region: str, item: items.Item | None) -> RegionStatus:
    return items.from_item(RegionStatus, item) if item is not None else RegionStatus(region=region)

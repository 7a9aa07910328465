"""How much waits in the table's indexes, for how long: each answer in one request a shard, however much there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from shared.clock import sortable
from shared.health.beats import seconds_before
from shared.health.model import Backlog, Dispatched
from shared.jobs.model import Head
from shared.jobs.placement import ClusterReport
from shared.jobs.schedule import submitted_in
from shared.jobs.states import State
from shared.store import items, keys
from shared.store.table import Table
from shared.store.totals import WEBHOOKS

MOST: Final = 1000
"""Entries of one partition that are looked at; a thousand are some 200 KB, 25 read units."""
_SAMPLE: Final = 25
_RECENTLY: Final = timedelta(hours=1)
_COMMITTED: Final = (State.PENDING, State.RUNNING, State.SUCCEEDED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Overview:
    """What one batch read tells: jobs by region and counter (`queued` has the claimed ones in it), reports, the number of webhooks, and
    which regions are drained."""

    jobs: Mapping[str, Mapping[str, int]]
    reports: Mapping[str, ClusterReport]
    webhooks: int
    drained: frozenset[str] = frozenset()


class Backlogs:
    """Reads what waits. Every method may raise UnavailableError."""

    def __init__(self, table: Table, layout: keys.Layout) -> None:
        self._table = table
        self._layout = layout

    async def overview(self, regions: Sequence[str]) -> Overview:
        """One request for each hundred keys: five regions, unless counters have more shards."""
        wanted: list[items.Item] = [keys.total(WEBHOOKS)]
        wanted += [key for region in regions for key in (keys.cluster_report(region), keys.region(region))]
        wanted += [keys.counter(region, shard) for region in regions for shard in range(self._layout.counter_shards)]
        jobs: dict[str, Counter[str]] = {region: Counter() for region in regions}
        reports: dict[str, ClusterReport] = {}
        webhooks = 0
        drained = set()
        for item in await self._table.batch_get(wanted):
            if item["sk"] == "COUNT":
                jobs[keys.counted_region(item["pk"])].update({name: int(value) for name, value in item.items() if name not in {"pk", "sk"}})
            elif item["sk"] == "REPORT":
                report = items.from_item(ClusterReport, item)
                reports[report.region] = report
            elif item["sk"] == "STATUS":
                drained |= {item["region"]} if item["drained"] else set()
            else:
                webhooks = int(item["total"])
        return Overview(jobs=jobs, reports=reports, webhooks=webhooks, drained=frozenset(drained))

    async def ready(self, region: str, now: datetime) -> Backlog:
        """The ready list, a job's age being since its submission. Of a longer list than is looked at, the oldest of its best entries."""
        partitions = self._layout.ready_partitions(region)
        found, exact = await self._entries(keys.READY_INDEX, partitions)
        return _backlog([submitted_in(item["ready_sk"]) for item in found], exact, now)

    async def overdue(self, region: str, now: datetime) -> Backlog:
        """Due marks whose time has passed."""
        partitions = self._layout.due_partitions(region)
        found, exact = await self._entries(keys.DUE_INDEX, partitions, before=sortable(now))
        return _backlog([keys.due_time(item["due_sk"]) for item in found], exact, now)

    async def claims(self, region: str, now: datetime) -> Backlog:
        """Claimed jobs: their number, and the age of the oldest claim among the hundred that were submitted first; two requests."""
        found, exact = await self._entries(keys.STATE_INDEX, [keys.state_partition(region, State.CLAIMED)])
        claims = [head.claim.claimed_at for head in await self._heads(found[:100]) if head.claim is not None]
        return _backlog(claims, exact, now).model_copy(update={"count": len(found)})

    async def dispatched(self, region: str, now: datetime) -> Dispatched | None:
        """How long the newest jobs waited for their commit: a query for each state that follows one, and one read of the heads."""
        found = []
        for state in _COMMITTED:
            page = await self._table.query(
                index=keys.STATE_INDEX,
                key_condition="state_pk = :pk",
                values={":pk": keys.state_partition(region, state)},
                limit=_SAMPLE,
                forward=False,
            )
            found += page.items
        waits = sorted(
            (head.committed_at - head.submitted_at).total_seconds()
            for head in await self._heads(found)
            if head.execution == 1 and head.committed_at is not None and now - head.committed_at <= _RECENTLY
        )
        if not waits:
            return None
        return Dispatched(jobs=len(waits), median_seconds=waits[len(waits) // 2], most_seconds=waits[-1])

    async def _heads(self, found: Sequence[items.Item]) -> list[Head]:
        wanted = [{"pk": item["pk"], "sk": keys.HEAD} for item in found]
        return [items.from_item(Head, item) for item in await self._table.batch_get(wanted)]

    async def _entries(self, index: str, partitions: Sequence[str], *, before: str | None = None) -> tuple[list[items.Item], bool]:
        """Up to `MOST` entries of each partition, and whether these are all."""
        partition_key, sort_key = keys.INDEXES[index]
        found: list[items.Item] = []
        exact = True
        for partition in partitions:
            condition, values = f"{partition_key} = :pk", {":pk": partition}
            if before is not None:
                condition, values = f"{condition} AND {sort_key} < :before", values | {":before": before}
            query: dict[str, Any] = {"index": index, "key_condition": condition, "values": values, "limit": MOST}
            page = await self._table.query(**query)
            found += page.items
            exact = exact and page.next_key is None
        return found, exact


def _backlog(times: Sequence[datetime], exact: bool, now: datetime) -> Backlog:
    return Backlog(count=len(times), exact=exact, oldest_seconds=seconds_before(now, min(times)) if times else None)

"""Lists of jobs, newest first: what a page costs depends on its filters and its length, never on how many jobs there are.

A list is a merge of partitions of an index: one for each region and state, or for each namespace and state. Every partition is asked
once for what stands right after the cursor; the newest of all answers are the page. The indexes hold keys only, so the heads come from the
table, by one batch read for each hundred.

Nothing here is a snapshot. An index lags behind its table by some milliseconds, and a job that moves from one partition to another while
both are read can be missing from that page. A job found under an old state is shown as it has become, or left out where it no longer meets
the filter; so a page may be shorter than its limit while the list goes on. The cursor says whether it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from shared.jobs.model import Head
from shared.jobs.states import State
from shared.store import cursors, items, keys
from shared.store.table import Table

MAX_LIMIT = 1000
_ROUNDS = 5
"""How often a page whose filter is applied after reading reads on; then it is handed out as partial."""
_BEFORE_ALL = "99999999"
"""Sorts after every position: the start of a list that is read backwards."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Filters:
    """Which jobs a list holds. None means all regions or namespaces, no states mean all; of no namespaces there are no jobs."""

    region: str | None = None
    namespaces: frozenset[str] | None = None
    states: frozenset[State] = field(default_factory=frozenset)

    @property
    def wanted(self) -> tuple[State, ...]:
        """The states of the list, in their usual order."""
        return tuple(state for state in State if not self.states or state in self.states)

    def admits(self, head: Head) -> bool:
        """Whether a job, as it stands now, belongs to the list."""
        if self.states and head.state not in self.states:
            return False
        return self.region in (None, head.region) and (self.namespaces is None or head.namespace in self.namespaces)

    def identity(self) -> dict[str, object]:
        """What a cursor is bound to."""
        namespaces = sorted(self.namespaces) if self.namespaces is not None else None
        return {"list": "jobs", "region": self.region, "namespaces": namespaces, "states": sorted(self.states)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Some jobs, newest first. `cursor` goes on (None at the end); `partial` where the bound of what one page reads cut it short."""

    heads: list[Head]
    cursor: str | None
    partial: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Partition:
    index: str
    attribute: str
    value: str


class Listing:
    """Reads lists of jobs."""

    def __init__(self, table: Table, regions: Sequence[str]) -> None:
        self._table = table
        self._regions = tuple(regions)

    async def page(self, filters: Filters, *, limit: int = 100, cursor: str | None = None) -> Page:
        """One page of at most `limit` jobs. Raises InvalidError for a bad cursor, ValueError for a limit outside 1 to 1000.

        Requests: one query a partition (states x regions, or states x namespaces), and a batch read for each hundred jobs; up to five
        times that where both a region and namespaces are asked for, since then one of them is looked at only after reading.
        """
        if not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit {limit} is not from 1 to {MAX_LIMIT}")
        position: str | None = cursors.decode(cursor, filters.identity()) if cursor is not None else None
        filtered_late = filters.region is not None and filters.namespaces is not None
        heads: list[Head] = []
        for _ in range(_ROUNDS if filtered_late else 1):
            found, more = await self._candidates(filters, limit, position)
            read = await self._heads([job_id for _, job_id in found])
            for order, job_id in found:
                if len(heads) == limit:
                    more = True
                    break
                position = order
                head = read.get(job_id)
                if head is not None and filters.admits(head):
                    heads.append(head)
            if not more:
                position = None
                break
            if len(heads) == limit:
                break
        following = self.cursor_after(filters, position) if position is not None else None
        return Page(heads=heads, cursor=following, partial=filtered_late and following is not None and len(heads) < limit)

    @staticmethod
    def cursor_after(filters: Filters, position: str) -> str:
        """The cursor of a list that goes on after a position (`keys.listed_order` of a head)."""
        return cursors.encode(position, filters.identity())

    def _partitions(self, filters: Filters) -> list[_Partition]:
        if filters.namespaces is not None:
            return [
                _Partition(index=keys.NAMESPACE_INDEX, attribute="namespace_pk", value=keys.namespace_partition(namespace, state.value))
                for namespace in sorted(filters.namespaces)
                for state in filters.wanted
            ]
        regions = self._regions if filters.region is None else (filters.region,)
        return [
            _Partition(index=keys.STATE_INDEX, attribute="state_pk", value=keys.state_partition(region, state.value))
            for region in regions
            for state in filters.wanted
        ]

    async def _candidates(self, filters: Filters, limit: int, position: str | None) -> tuple[list[tuple[str, str]], bool]:
        """The next (order, job id) of all partitions, newest first, and whether more follow."""
        pages = await asyncio.gather(*(self._read(partition, limit, position) for partition in self._partitions(filters)))
        merged: dict[str, str] = {}
        for page, _ in pages:
            merged.update({job_id: order for order, job_id in page})
        ordered = sorted(((order, job_id) for job_id, order in merged.items()), reverse=True)
        # A partition whose answer was cut says nothing of what is older than its last entry.
        known_to = max((page[-1][0] for page, cut in pages if cut and page), default="")
        ordered = [entry for entry in ordered if entry[0] >= known_to]
        more = len(ordered) > limit or any(cut for _, cut in pages)
        return ordered[:limit], more

    async def _read(self, partition: _Partition, limit: int, position: str | None) -> tuple[list[tuple[str, str]], bool]:
        page = await self._table.query(
            index=partition.index,
            key_condition=f"{partition.attribute} = :pk AND listed_sk < :position",
            values={":pk": partition.value, ":position": position or _BEFORE_ALL},
            limit=limit + 1,
            forward=False,
        )
        return [(item["listed_sk"], keys.job_id_of(item["pk"])) for item in page.items], page.next_key is not None

    async def _heads(self, job_ids: list[str]) -> dict[str, Head]:
        if not job_ids:
            return {}
        wanted = [{"pk": keys.job(job_id), "sk": keys.HEAD} for job_id in job_ids]
        found = [items.from_item(Head, item) for item in await self._table.batch_get(wanted)]
        return {head.id: head for head in found}

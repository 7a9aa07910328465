"""Pages of what stands in one partition of the list index, newest first: the same for everything that isn't a job."""

from __future__ import annotations

from collections.abc import Mapping

from shared.store import cursors, items, keys
from shared.store.table import Table

_START = "99999999"
"""Sorts after every position."""


async def newest_first(
    table: Table, partition: str, filters: Mapping[str, object], *, limit: int, cursor: str | None
) -> tuple[list[items.Item], str | None]:
    """The items of one page, whole, and the cursor that goes on: one query, and a batch read for each hundred.

    Items have `state_pk` (the partition) and `listed_sk` (`keys.by_time`). One that is gone meanwhile is left out. `filters` say which list
    a cursor belongs to. Raises InvalidError for a bad cursor.
    """
    position = cursors.decode(cursor, filters) if cursor is not None else _START
    page = await table.query(
        index=keys.STATE_INDEX,
        key_condition="state_pk = :pk AND listed_sk < :position",
        values={":pk": partition, ":position": position},
        limit=limit + 1,
        forward=False,
    )
    listed = page.items[:limit]
    read = await table.batch_get([{"pk": item["pk"], "sk": item["sk"]} for item in listed]) if listed else []
    found = {(item["pk"], item["sk"]): item for item in read}
    more = len(page.items) > limit or page.next_key is not None
    following = cursors.encode(listed[-1]["listed_sk"], filters) if more and listed else None
    return [found[key] for item in listed if (key := (item["pk"], item["sk"])) in found], following

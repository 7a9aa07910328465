"""How many jobs stand in each state, by region: changed in the transaction of the change they count, so always exact.

A claim moves no counter: `queued` counts the claimed jobs too, and those are counted from the list's index, where they are few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shared.jobs.model import Head
from shared.jobs.states import State
from shared.store import items, keys
from shared.store.table import Table


def counted_as(head: Head) -> str:
    """The counter that a head stands in."""
    return State.QUEUED if head.state is State.CLAIMED else head.state


def move(before: Head | None, after: Head, *, layout: keys.Layout, shard: int, table: str) -> list[items.Item]:
    """The transaction's actions that move a job from one counter to the other; none where both are the same, one a region."""
    steps: Counter[tuple[str, str]] = Counter({(after.region, counted_as(after)): 1})
    if before is not None:
        steps[before.region, counted_as(before)] -= 1
    found = []
    for region in sorted({region for region, _ in steps}):
        added = {name: steps[at, name] for at, name in steps if at == region and steps[at, name]}
        if not added:
            continue
        names = {f"#{place}": name for place, name in enumerate(added)}
        values = {f":{place}": by for place, by in enumerate(added.values())}
        found.append(
            {
                "Update": {
                    "TableName": table,
                    "Key": items.to_wire(keys.counter(region, shard % layout.counter_shards)),
                    "UpdateExpression": "ADD " + ", ".join(f"#{place} :{place}" for place in range(len(added))),
                    "ExpressionAttributeNames": names,
                    "ExpressionAttributeValues": items.to_wire(values),
                }
            }
        )
    return found


class Counters:
    """Reads the counters."""

    def __init__(self, table: Table, layout: keys.Layout) -> None:
        self._table = table
        self._layout = layout

    async def by_region(self, regions: Sequence[str]) -> dict[str, dict[State, int]]:
        """Jobs by region and state, every state named. One batch read for each 100 shards, and one count of claimed jobs a region."""
        wanted = [keys.counter(region, shard) for region in regions for shard in range(self._layout.counter_shards)]
        totals: dict[str, Counter[str]] = {region: Counter() for region in regions}
        for item in await self._table.batch_get(wanted):
            totals[keys.counted_region(item["pk"])].update({name: int(value) for name, value in item.items() if name not in {"pk", "sk"}})
        result = {}
        for region in regions:
            claimed = await self._claimed(region) if totals[region][State.QUEUED] else 0
            counts = {state: totals[region][state] for state in State}
            counts[State.CLAIMED] = claimed
            counts[State.QUEUED] = max(0, counts[State.QUEUED] - claimed)
            result[region] = counts
        return result

    async def _claimed(self, region: str) -> int:
        return await self._table.count(
            index=keys.STATE_INDEX,
            key_condition="state_pk = :pk",
            values={":pk": keys.state_partition(region, State.CLAIMED)},
        )

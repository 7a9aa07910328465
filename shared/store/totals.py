"""How many things of a sort there are: counters that change in the transaction of the change they count, so always exact.

Each is one item, since few things of these sorts are made at the same time; transactions that meet on it are tried again. What is
made by the thousand a second has sharded counters (`shared.store.counters`).
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.store import items, keys
from shared.store.table import Table

TEMPLATES = "templates"
WEBHOOKS = "webhooks"


def move(table: str, key: items.Item, by: int, *, below: int | None = None) -> items.Item:
    """The transaction's action that changes a total; with `below`, on condition that it is below that before."""
    update: items.Item = {
        "TableName": table,
        "Key": items.to_wire(key),
        "UpdateExpression": "ADD #n :by",
        "ExpressionAttributeNames": {"#n": "total"},
        "ExpressionAttributeValues": items.to_wire({":by": by}),
    }
    if below is not None:
        update["ConditionExpression"] = "attribute_not_exists(#n) OR #n < :below"
        update["ExpressionAttributeValues"] |= items.to_wire({":below": below})
    return {"Update": update}


class Totals:
    """Reads totals."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def of(self, nouns: Sequence[str]) -> dict[str, int]:
        """How many there are of each noun; one read."""
        wanted = {keys.total(noun)["pk"]: noun for noun in nouns}
        found = dict.fromkeys(nouns, 0)
        for item in await self._table.batch_get([keys.total(noun) for noun in nouns]):
            found[wanted[item["pk"]]] = int(item["total"])
        return found

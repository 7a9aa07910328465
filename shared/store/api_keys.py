"""The keys of callers in the table: an item for each key, and one that holds its name, so that no two keys share one.

All are in one partition, so that they can be listed without a scan. They are few, and every process remembers what it has read.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

from shared.errors import ConflictError, NotFoundError
from shared.identity.keys import NAME, ApiKey
from shared.store import items
from shared.store.table import ConditionFailedError, Table

_PARTITION: Final = "KEYS"


class ApiKeys:
    """The repository of keys. Every method may raise UnavailableError."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def put(self, key: ApiKey) -> None:
        """Write a new key. Raises ConflictError where another has its name."""
        named = _by_name(key.name) | {"id": key.id}

        def actions(_: int) -> list[items.Item]:
            return [self._new(_by_id(key.id) | items.to_item(key)), self._new(named)]

        try:
            await self._table.transact(actions)
        except ConditionFailedError as failed:
            standing = await self.get(key.id)  # ours, where a try before this one wrote it and its answer was lost
            if standing != key:
                raise ConflictError(f"Key '{key.name}' exists already; revoke it first, or choose another name") from failed

    async def get(self, key_id: str) -> ApiKey | None:
        """One key, by a consistent read of its id."""
        item = await self._table.get(_by_id(key_id))
        return items.from_item(ApiKey, item) if item is not None else None

    async def find(self, id_or_name: str) -> ApiKey:
        """One key by its id or its name. Raises NotFoundError."""
        if re.fullmatch(NAME, id_or_name) is None:
            raise NotFoundError("Key", id_or_name)
        found = await self.get(id_or_name)
        if found is None and (named := await self._table.get(_by_name(id_or_name))) is not None:
            found = await self.get(named["id"])
        if found is None:
            raise NotFoundError("Key", id_or_name)
        return found

    async def all(self) -> list[ApiKey]:
        """All keys, by name; those that have expired too, until somebody revokes them."""
        condition = {"key_condition": "pk = :pk AND begins_with(sk, :prefix)", "values": {":pk": _PARTITION, ":prefix": "ID#"}}
        found = [items.from_item(ApiKey, item) async for item in self._table.query_all(consistent=True, **condition)]
        return sorted(found, key=lambda key: key.name)

    async def remove(self, key: ApiKey) -> None:
        """Forget a key and its name. Nothing happens where it is gone; a name that another key has got since is left to it."""
        await self._remove(key, [])

    async def remove_but_the_last(self, key: ApiKey, *, now: datetime) -> None:
        """The same, unless it is the last one that administers. Raises ConflictError.

        Another one stands when this one goes, in the same transaction: of two who remove each other's last, one is refused.
        """
        while key.administers(now):
            others = [other for other in await self.all() if other.administers(now) and other.id != key.id]
            if not others:
                raise ConflictError(
                    f"Key '{key.name}' is the last with the right 'admin' in all namespaces: without it nobody could make keys any more; "
                    "make another first"
                )
            lasting = max(others, key=lambda other: (other.expires_at is None, other.expires_at or now))
            try:
                await self._remove(key, [self._stands(lasting)])
            except ConditionFailedError:
                continue  # that one is gone by now
            return
        await self._remove(key, [])

    async def _remove(self, key: ApiKey, conditions: list[items.Item]) -> None:
        """Raises ConditionFailedError where a condition does not hold."""
        gone = {"Delete": {"TableName": self._table.name, "Key": items.to_wire(_by_id(key.id))}}
        free = {
            "Delete": {
                "TableName": self._table.name,
                "Key": items.to_wire(_by_name(key.name)),
                "ConditionExpression": "#id = :id",
                "ExpressionAttributeNames": {"#id": "id"},
                "ExpressionAttributeValues": items.to_wire({":id": key.id}),
            }
        }
        try:
            await self._table.transact(lambda _: [*conditions, gone, free])
        except ConditionFailedError as failed:
            if any(failed.failed[: len(conditions)]):
                raise
            await self._table.transact(lambda _: [*conditions, gone])

    def _stands(self, key: ApiKey) -> items.Item:
        check = {"TableName": self._table.name, "Key": items.to_wire(_by_id(key.id)), "ConditionExpression": "attribute_exists(pk)"}
        return {"ConditionCheck": check}

    def _new(self, item: items.Item) -> dict[str, Any]:
        return {"Put": {"TableName": self._table.name, "Item": items.to_wire(item), "ConditionExpression": "attribute_not_exists(pk)"}}


def _by_id(key_id: str) -> items.Item:
    return {"pk": _PARTITION, "sk": f"ID#{key_id}"}


def _by_name(name: str) -> items.Item:
    return {"pk": _PARTITION, "sk": f"NAME#{name}"}

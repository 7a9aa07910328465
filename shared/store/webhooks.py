"""Webhooks in the table, laid out for who delivers: those of one namespace are one partition, which a single consistent query reads whole.

Besides its record a webhook has an entry under its id that says where the record stands. When a webhook is deleted, the entry of one
that has a secret stays until the secret is gone too, so that a deletion that broke off can be made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from shared.errors import ConflictError, NotFoundError
from shared.store import cursors, items, keys, totals
from shared.store.table import ConditionFailedError, Table
from shared.webhooks.model import Webhook

MAX_PER_NAMESPACE: Final = 100
"""Webhooks of one namespace, and of those without one. An event may have to be delivered to each."""
_PARTITION = "WEBHOOKS"
_START = "99999999"
_MAX_ID = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookPage:
    """Some webhooks, newest first, and the cursor that goes on (None at the end)."""

    webhooks: list[Webhook]
    cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """Where a webhook stands; `signed` where it has a secret, `deleted` where nothing but that is left of it."""

    id: str
    namespace: str | None
    order: str
    signed: bool
    deleted: bool


class Webhooks:
    """The repository of webhooks."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def create(self, webhook: Webhook) -> None:
        """Write a new webhook. Raises ConflictError where its namespace has as many as it may have."""
        order = keys.by_time(webhook.created_at, webhook.id)
        entry = keys.webhook(webhook.id) | {"order": order, "signed": webhook.signed, "deleted": False}
        if webhook.namespace is not None:
            entry["namespace"] = webhook.namespace
        record = _key(webhook.namespace, order) | items.to_item(webhook) | {"state_pk": _PARTITION, "listed_sk": order}
        actions = [
            self._fresh(entry),
            self._fresh(record),
            totals.move(self._table.name, _count(webhook.namespace), 1, below=MAX_PER_NAMESPACE),
            totals.move(self._table.name, keys.total(totals.WEBHOOKS), 1),
        ]
        try:
            await self._table.transact(lambda _: actions)
        except ConditionFailedError as refused:
            if not refused.failed[2]:
                raise LookupError(f"webhook {webhook.id} stands already") from refused
            whose = f"Namespace '{webhook.namespace}'" if webhook.namespace else "The fleet, for all namespaces,"
            raise ConflictError(f"{whose} has {MAX_PER_NAMESPACE} webhooks, which is the most; delete one first") from refused

    async def entry(self, webhook_id: str) -> Entry:
        """Where a webhook stands. Raises NotFoundError."""
        item = await self._table.get(keys.webhook(webhook_id)) if 0 < len(webhook_id) <= _MAX_ID else None
        if item is None:
            raise NotFoundError("Webhook", webhook_id)
        return Entry(id=webhook_id, namespace=item.get("namespace"), order=item["order"], signed=item["signed"], deleted=item["deleted"])

    async def get(self, entry: Entry) -> Webhook:
        """The webhook that stands there. Raises NotFoundError."""
        item = await self._table.get(_key(entry.namespace, entry.order)) if not entry.deleted else None
        if item is None:
            raise NotFoundError("Webhook", entry.id)
        return _webhook(item)

    async def current(self, webhook: Webhook) -> Webhook | None:
        """A webhook that was read before, as it stands now, by one consistent read; None where it was deleted."""
        item = await self._table.get(place(webhook))
        return _webhook(item) if item is not None else None

    async def rotate(self, webhook: Webhook, *, now: datetime) -> Webhook:
        """Note that a webhook has a new secret, its first one perhaps.

        Raises ConflictError where another did so since it was read, NotFoundError.
        """
        rotated = webhook.model_copy(update={"rotated_at": now, "signed": True})
        unchanged = "attribute_not_exists(rotated_at)" if webhook.rotated_at is None else "rotated_at = :read"
        values: items.Item = {":now": items.to_item(rotated)["rotated_at"], ":yes": True}
        if webhook.rotated_at is not None:
            values[":read"] = items.to_item(webhook)["rotated_at"]
        record = {
            "Key": items.to_wire(place(webhook)),
            "UpdateExpression": "SET rotated_at = :now, signed = :yes",
            "ConditionExpression": f"attribute_exists(pk) AND {unchanged}",
            "ExpressionAttributeValues": items.to_wire(values),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        entry = {
            "Key": items.to_wire(keys.webhook(webhook.id)),
            "UpdateExpression": "SET signed = :yes",
            "ConditionExpression": "deleted = :no",
            "ExpressionAttributeValues": items.to_wire({":yes": True, ":no": False}),
        }
        actions = [{"Update": {"TableName": self._table.name} | update} for update in (record, entry)]
        try:
            await self._table.transact(lambda _: actions)
        except ConditionFailedError as refused:
            if refused.items[0] is None or refused.failed[1]:
                raise NotFoundError("Webhook", webhook.id) from refused
            raise ConflictError(f"The secret of webhook '{webhook.id}' is being replaced by somebody else; look at it again") from refused
        return rotated

    async def remove(self, entry: Entry) -> None:
        """Take a webhook out of every list; where it has a secret, its entry is kept. Nothing happens where it is out already."""
        key = items.to_wire(keys.webhook(entry.id))
        standing: dict[str, Any] = {
            "TableName": self._table.name,
            "Key": key,
            "ConditionExpression": "deleted = :no",
            "ExpressionAttributeValues": items.to_wire({":no": False}),
        }
        if entry.signed:
            standing["UpdateExpression"] = "SET deleted = :yes"
            standing["ExpressionAttributeValues"] |= items.to_wire({":yes": True})
        actions = [
            {"Update" if entry.signed else "Delete": standing},
            {"Delete": {"TableName": self._table.name, "Key": items.to_wire(_key(entry.namespace, entry.order))}},
            {"Delete": {"TableName": self._table.name, "Key": items.to_wire(keys.webhook_health(entry.id))}},
            totals.move(self._table.name, _count(entry.namespace), -1),
            totals.move(self._table.name, keys.total(totals.WEBHOOKS), -1),
        ]
        try:
            await self._table.transact(lambda _: actions)
        except ConditionFailedError:
            return

    async def forget(self, entry: Entry) -> None:
        """Remove the entry of a webhook whose secret is gone."""
        await self._table.delete(keys.webhook(entry.id))

    async def concerned(self, namespace: str) -> list[Webhook]:
        """The webhooks of a namespace's jobs: one consistent query of the namespace's own, one of those for all namespaces."""
        found = await asyncio.gather(self._all_of(namespace), self._all_of(None))
        return [webhook for webhooks in found for webhook in webhooks]

    async def many(self, webhook_ids: Collection[str]) -> dict[str, Webhook]:
        """Webhooks by id, in two reads for each hundred; unknown and deleted ones are left out."""
        entries = await self._table.batch_get([keys.webhook(webhook_id) for webhook_id in webhook_ids]) if webhook_ids else []
        places = [_key(entry.get("namespace"), entry["order"]) for entry in entries if not entry["deleted"]]
        records = await self._table.batch_get(places) if places else []
        return {webhook.id: webhook for webhook in map(_webhook, records)}

    async def page(self, *, limit: int, cursor: str | None = None, namespaces: Sequence[str] | None = None) -> WebhookPage:
        """One page of all webhooks, or of those of some namespaces. Raises InvalidError for a bad cursor.

        Requests: of all, one query and a batch read for each hundred; of some namespaces, one query each.
        """
        filters: dict[str, object] = {"list": "webhooks", "namespaces": sorted(namespaces) if namespaces is not None else None}
        position = cursors.decode(cursor, filters) if cursor is not None else _START
        if namespaces is None:
            found = await self._listed(position, limit + 1)
        else:
            parts = await asyncio.gather(*(self._before(namespace, position, limit + 1) for namespace in namespaces))
            found = sorted((entry for part in parts for entry in part), key=lambda entry: entry[0], reverse=True)
        shown = found[:limit]
        following = cursors.encode(shown[-1][0], filters) if len(found) > limit else None
        return WebhookPage(webhooks=[webhook for _, webhook in shown if webhook is not None], cursor=following)

    async def _listed(self, position: str, limit: int) -> list[tuple[str, Webhook | None]]:
        page = await self._table.query(
            index=keys.STATE_INDEX,
            key_condition="state_pk = :pk AND listed_sk < :position",
            values={":pk": _PARTITION, ":position": position},
            limit=limit,
            forward=False,
        )
        wanted = [{"pk": item["pk"], "sk": item["sk"]} for item in page.items]
        read = {item["listed_sk"]: _webhook(item) for item in await self._table.batch_get(wanted)} if wanted else {}
        return [(item["listed_sk"], read.get(item["listed_sk"])) for item in page.items]

    async def _before(self, namespace: str | None, position: str, limit: int) -> list[tuple[str, Webhook | None]]:
        page = await self._table.query(
            key_condition="pk = :pk AND sk < :position",
            values={":pk": keys.webhooks_of(namespace), ":position": position},
            limit=limit,
            forward=False,
            consistent=True,
        )
        return [(item["sk"], _webhook(item)) for item in page.items]

    async def _all_of(self, namespace: str | None) -> list[Webhook]:
        whole = self._table.query_all(key_condition="pk = :pk", values={":pk": keys.webhooks_of(namespace)}, consistent=True)
        return [_webhook(item) async for item in whole]

    def _fresh(self, item: items.Item) -> items.Item:
        return {
            "Put": {"TableName": self._table.name, "Item": items.to_wire(item), "ConditionExpression": "attribute_not_exists(pk)"},
        }


def place(webhook: Webhook) -> items.Item:
    """The key of a webhook's record."""
    return _key(webhook.namespace, keys.by_time(webhook.created_at, webhook.id))


def _key(namespace: str | None, order: str) -> items.Item:
    return {"pk": keys.webhooks_of(namespace), "sk": order}


def _count(namespace: str | None) -> dict[str, str]:
    return keys.total(totals.WEBHOOKS, namespace or "*")


def _webhook(item: items.Item) -> Webhook:
    return items.from_item(Webhook, item)

"""How endpoints fare, in the table: an item beside each webhook's entry, and the changes of a webhook that are told in it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from shared.errors import FleetError, NotFoundError
from shared.store import items, keys
from shared.store.table import ConditionFailedError, Table
from shared.store.webhooks import place
from shared.webhooks.endpoints import EndpointHealth
from shared.webhooks.model import Webhook

RETENTION: Final = timedelta(days=90)
"""How long it is kept of an endpoint of which nothing more is heard; the webhook itself says whether it is disabled, and why."""


class HealthChangedError(FleetError):
    """A conditional write was refused: somebody else changed it first. `current` is how it stands."""

    def __init__(self, current: EndpointHealth) -> None:
        self.current = current
        super().__init__(f"the health of webhook {current.webhook_id} has changed")


class Endpoints:
    """The repository of how endpoints fare. Every method may raise UnavailableError."""

    def __init__(self, table: Table) -> None:
        self._table = table

    async def get(self, webhook_id: str) -> EndpointHealth:
        """How an endpoint fares; of one that nothing was sent to, nothing."""
        item = await self._table.get(keys.webhook_health(webhook_id))
        return items.from_item(EndpointHealth, item) if item else EndpointHealth(webhook_id=webhook_id)

    async def write(self, before: EndpointHealth, after: EndpointHealth, now: datetime) -> None:
        """Write a change, on condition that it is as it was read. Raises HealthChangedError. Idempotent by the new stamp."""
        put = _put(before, after, now)
        condition = {name: one for name, one in put.items() if name != "Item"}
        try:
            await self._table.put(put["Item"], condition=condition)
        except ConditionFailedError as refused:
            current = _standing(refused.items[0], after)
            if current.stamp != after.stamp:
                raise HealthChangedError(current) from refused

    async def disable(self, webhook: Webhook, before: EndpointHealth, after: EndpointHealth, *, reason: str, now: datetime) -> bool:
        """Disable a webhook and tell of it, in one transaction; False where it is disabled already.

        Raises HealthChangedError, NotFoundError where the webhook is gone.
        """
        noted = items.to_item(webhook.model_copy(update={"disabled_at": now, "disabled_reason": reason}))
        update = {
            "UpdateExpression": "SET disabled_at = :at, disabled_reason = :reason",
            "ConditionExpression": "attribute_exists(pk) AND attribute_not_exists(disabled_at)",
            "ExpressionAttributeValues": items.to_wire({":at": noted["disabled_at"], ":reason": reason}),
        }
        return await self._change(webhook, update, before, after, now)

    async def enable(self, webhook: Webhook, before: EndpointHealth, after: EndpointHealth, *, now: datetime) -> bool:
        """The opposite; False where it is not disabled."""
        update = {
            "UpdateExpression": "REMOVE disabled_at, disabled_reason",
            "ConditionExpression": "attribute_exists(pk) AND attribute_exists(disabled_at)",
        }
        return await self._change(webhook, update, before, after, now)

    async def _change(self, webhook: Webhook, update: items.Item, before: EndpointHealth, after: EndpointHealth, now: datetime) -> bool:
        record = {"TableName": self._table.name, "Key": items.to_wire(place(webhook)), "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        put = _put(before, after, now) | {"TableName": self._table.name, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
        actions = [{"Update": record | update}, {"Put": put | {"Item": items.to_wire(put["Item"])}}]
        try:
            await self._table.transact(lambda _: actions)
        except ConditionFailedError as refused:
            if not refused.failed[0]:
                raise HealthChangedError(_standing(refused.items[1], after)) from refused
            if refused.items[0] is None:
                raise NotFoundError("Webhook", webhook.id) from refused
            return False
        return True


def _put(before: EndpointHealth, after: EndpointHealth, now: datetime) -> dict[str, Any]:
    expires = int((now + RETENTION).timestamp())
    item = keys.webhook_health(after.webhook_id) | items.to_item(after) | {"expires": expires}
    if not before.stamp:
        return {"Item": item, "ConditionExpression": "attribute_not_exists(pk)"}
    return {"Item": item, "ConditionExpression": "stamp = :read", "ExpressionAttributeValues": items.to_wire({":read": before.stamp})}


def _standing(item: items.Item | None, after: EndpointHealth) -> EndpointHealth:
    return items.from_item(EndpointHealth, item) if item else EndpointHealth(webhook_id=after.webhook_id)

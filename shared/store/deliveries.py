"""Deliveries in the table. They stand in the partition of their job, so that one consistent query reads what there is to tell of a job
(head, events, executions) together with what has been told of it, and to whom.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from shared.errors import FleetError, NotFoundError
from shared.jobs.model import Event, Execution, Head, current_execution
from shared.store import cursors, items, keys
from shared.store.table import ConditionFailedError, Table
from shared.webhooks.deliveries import LIFETIME, Delivery, DeliveryState
from shared.webhooks.due import DueMarks

RETENTION: Final = timedelta(days=30)
"""How long a delivery can be read and sent again, since it was made or sent again; then the table's TTL removes it. Longer than any message
lives in a queue (14 days), since an event whose delivery is gone would be told anew."""
_START = "99999999"
_SPARED = "spared"
_LAST_NUMBER = 99_999_999


class DeliveryKey(NamedTuple):
    """Which delivery: of which event of which job, to which webhook."""

    webhook_id: str
    job_id: str
    number: int


class DeliveryChangedError(FleetError):
    """A conditional write was refused: somebody else changed the delivery first. `current` is how it stands (None: gone)."""

    def __init__(self, current: Delivery | None) -> None:
        self.current = current
        super().__init__(f"the delivery has changed: {current.state if current else 'gone'}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """All that there is to tell of one job, and what has been told."""

    head: Head
    events: Mapping[int, Event]
    executions: Mapping[int, Execution]
    deliveries: Mapping[DeliveryKey, Delivery]

    def to(self, webhook_id: str) -> list[Delivery]:
        """The deliveries to one webhook, in the order of their events."""
        return [self.deliveries[key] for key in sorted(self.deliveries) if key.webhook_id == webhook_id]

    def before(self, delivery: Delivery) -> Delivery | None:
        """The earliest delivery to the same webhook that is still on its way and must come to its end before this one may be sent."""
        waiting = (one for one in self.to(delivery.webhook_id) if one.number < delivery.number and not one.state.final)
        return next(waiting, None)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeliveryPage:
    """Some deliveries, newest event first, and the cursor that goes on (None at the end)."""

    deliveries: list[Delivery]
    cursor: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A time at which somebody must look at a delivery."""

    at: datetime
    key: DeliveryKey


class Deliveries:
    """The repository of deliveries. Every method may raise UnavailableError."""

    def __init__(self, table: Table, layout: keys.Layout) -> None:
        self._table = table
        self._layout = layout
        self.marks = DueMarks()

    async def story(self, job_id: str) -> Story | None:
        """What there is to tell of a job: one query, a page for each megabyte. None for an unknown job."""
        head: Head | None = None
        events: dict[int, Event] = {}
        executions: dict[int, Execution] = {}
        deliveries: dict[DeliveryKey, Delivery] = {}
        found = self._table.query_all(
            key_condition="pk = :pk AND sk BETWEEN :first AND :last",
            values={":pk": keys.job(job_id), ":first": keys.DELIVERY, ":last": keys.HEAD},
            consistent=True,
        )
        async for item in found:
            sort_key = str(item["sk"])
            if sort_key == keys.HEAD:
                head = items.from_item(Head, item)
            elif sort_key.startswith(keys.EVENT):
                event = items.from_item(Event, item)
                events[event.number] = event
            elif sort_key.startswith(keys.EXECUTION):
                execution = items.from_item(Execution, item)
                executions[execution.number] = execution
            else:
                delivery = items.from_item(Delivery, item)
                deliveries[key_of(delivery)] = delivery
        if head is None:
            return None
        if (current := current_execution(head)) is not None:
            executions.setdefault(current.number, current)
        return Story(head=head, events=events, executions=executions, deliveries=deliveries)

    async def get(self, key: DeliveryKey) -> Delivery:
        """One delivery. Raises NotFoundError."""
        item = await self._table.get(keys.delivery(*key))
        if item is None:
            raise NotFoundError("Delivery", f"{key.job_id}#{key.number}")
        return items.from_item(Delivery, item)

    async def of_job(self, webhook_id: str, job_id: str) -> list[Delivery]:
        """The deliveries of a job to one webhook, in the order of their events: one consistent query."""
        first, last = (keys.delivery(webhook_id, job_id, number)["sk"] for number in (0, _LAST_NUMBER))
        found = self._table.query_all(
            key_condition="pk = :pk AND sk BETWEEN :first AND :last",
            values={":pk": keys.job(job_id), ":first": first, ":last": last},
            consistent=True,
        )
        return [items.from_item(Delivery, item) async for item in found]

    async def create(self, delivery: Delivery) -> Delivery:
        """Write a new delivery, unless there is one of the same event to the same webhook; returns the one that stands.

        It is the given one where `stamp` says so: a put whose answer was lost knows itself again.
        """
        try:
            await self._put(delivery, {"ConditionExpression": "attribute_not_exists(pk)"})
        except ConditionFailedError as refused:
            standing = _standing(refused)
            if standing is None:
                raise
            return standing
        return delivery

    async def write(self, before: Delivery, after: Delivery) -> Delivery:
        """Write a change, on condition that the delivery is as it was read. Raises DeliveryChangedError. Idempotent by the new stamp."""
        condition = {"ConditionExpression": "stamp = :read", "ExpressionAttributeValues": items.to_wire({":read": before.stamp})}
        try:
            await self._put(after, condition)
        except ConditionFailedError as refused:
            current = _standing(refused)
            if current is not None and current.stamp == after.stamp:
                return current
            raise DeliveryChangedError(current) from refused
        return after

    async def due(self, *, limit: int, after: Mark | None = None) -> list[Mark]:
        """The earliest marks behind `after`, in order, whether or not their time has come: one query a shard."""
        pages = []
        for partition in self._layout.deliveries_due():
            page = await self._table.query(
                index=keys.DUE_INDEX,
                key_condition="due_pk = :pk AND due_sk > :after",
                values={":pk": partition, ":after": _due_order(after) if after is not None else "0"},
                limit=limit,
            )
            pages.append(page.items)
        merged = heapq.merge(*pages, key=lambda item: str(item["due_sk"]))
        marks = [Mark(at=keys.due_time(item["due_sk"]), key=DeliveryKey(*keys.delivery_parts(item["pk"], item["sk"]))) for item in merged]
        return marks[:limit]

    async def spared(self, webhook_id: str, *, limit: int) -> list[DeliveryKey]:
        """Deliveries that wait because an endpoint is being spared, oldest event first: one query. The index is a little behind."""
        page = await self._table.query(
            index=keys.NAMESPACE_INDEX,
            key_condition=f"{keys.INDEXES[keys.NAMESPACE_INDEX][0]} = :pk",
            values={":pk": keys.deliveries_of(webhook_id, _SPARED)},
            limit=limit,
        )
        return [_key(item) for item in page.items]

    async def waiting(self) -> int:
        """How many deliveries are on their way: for the fleet's own health. Reads the marks of all of them."""
        counts = [
            await self._table.count(index=keys.DUE_INDEX, key_condition="due_pk = :pk", values={":pk": partition})
            for partition in self._layout.deliveries_due()
        ]
        return sum(counts)

    async def page(self, webhook_id: str, *, limit: int, cursor: str | None = None, failed: bool = False) -> DeliveryPage:
        """One page of the deliveries to a webhook (all, or only those that have failed), newest event first. Raises InvalidError.

        Requests: one query and a batch read for each hundred.
        """
        filters: dict[str, object] = {"list": "deliveries", "webhook": webhook_id, "failed": failed}
        position = cursors.decode(cursor, filters) if cursor is not None else _START
        index = keys.NAMESPACE_INDEX if failed else keys.STATE_INDEX
        partition = keys.deliveries_of(webhook_id, DeliveryState.FAILED if failed else None)
        page = await self._table.query(
            index=index,
            key_condition=f"{keys.INDEXES[index][0]} = :pk AND listed_sk < :position",
            values={":pk": partition, ":position": position},
            limit=limit + 1,
            forward=False,
        )
        shown = page.items[:limit]
        read = {key_of(delivery): delivery for delivery in await self.read([_key(item) for item in shown])}
        following = cursors.encode(str(shown[-1]["listed_sk"]), filters) if len(page.items) > limit else None
        return DeliveryPage(deliveries=[read[key] for item in shown if (key := _key(item)) in read], cursor=following)

    async def read(self, wanted: Sequence[DeliveryKey]) -> list[Delivery]:
        """Many deliveries in any order; unknown ones are left out."""
        found = await self._table.batch_get([keys.delivery(*key) for key in wanted]) if wanted else []
        return [items.from_item(Delivery, item) for item in found]

    async def _put(self, delivery: Delivery, condition: dict[str, Any]) -> None:
        try:
            await self._table.put(self._item(delivery), condition=condition)
        finally:
            self.marks.note(delivery.next_at)  # a write whose answer was lost may have been made

    def _item(self, delivery: Delivery) -> items.Item:
        """The whole item; its index attributes follow from the record alone."""
        key = key_of(delivery)
        found: dict[str, Any] = keys.delivery(*key) | items.to_item(delivery)
        found["expires"] = int((delivery.deadline - LIFETIME + RETENTION).timestamp())
        found["state_pk"] = keys.deliveries_of(delivery.webhook_id)
        found["listed_sk"] = keys.by_time(delivery.at, f"{delivery.job_id}.{delivery.number:08d}")
        if delivery.state is DeliveryState.FAILED:
            found["namespace_pk"] = keys.deliveries_of(delivery.webhook_id, DeliveryState.FAILED)
        elif delivery.spared:
            found["namespace_pk"] = keys.deliveries_of(delivery.webhook_id, _SPARED)
        if delivery.next_at is not None:
            found["due_pk"] = keys.deliveries_due(keys.shard_of(delivery.job_id, self._layout.due_shards))
            found["due_sk"] = _due_order(Mark(at=delivery.next_at, key=key))
        return found


def key_of(delivery: Delivery) -> DeliveryKey:
    """Which delivery a record is."""
    return DeliveryKey(delivery.webhook_id, delivery.job_id, delivery.number)


def _due_order(mark: Mark) -> str:
    return keys.due_order(mark.at, f"{mark.key.job_id}#{mark.key.number:08d}#{mark.key.webhook_id}")


def _key(item: items.Item) -> DeliveryKey:
    return DeliveryKey(*keys.delivery_parts(item["pk"], item["sk"]))


def _standing(refused: ConditionFailedError) -> Delivery | None:
    item = refused.items[0]
    return items.from_item(Delivery, item) if item else None

"""The table's client: DynamoDB's calls with plain values in and out, and its errors as ours.

Throttles and server errors are retried by botocore (standard mode); what botocore does not retry, a transaction that met another one or was
throttled as a whole, is retried here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tenacity
from botocore.exceptions import BotoCoreError, ClientError

from shared.aws import CONNECTIONS
from shared.errors import FleetError, UnavailableError
from shared.jobs.patience import again
from shared.store.items import Item, from_wire, to_wire

_TRANSIENT_REASONS = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
_BATCH_GET_LIMIT = 100


class ConditionFailedError(FleetError):
    """A condition did not hold. `items` are the items as they stand, one for each action (None: not one that failed)."""

    def __init__(self, failed: Sequence[bool], items: Sequence[Item | None]) -> None:
        self.failed = tuple(failed)
        self.items = tuple(items)
        super().__init__(f"condition failed on action {[i for i, hit in enumerate(failed) if hit]}")


class _BusyError(FleetError):
    """A transaction met another one, or was throttled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Some items, and the key to go on from (None at the end)."""

    items: list[Item]
    next_key: Item | None


class Table:
    """One table behind an aiobotocore DynamoDB client.

    No more requests are under way at a time than there are connections. The client would build and sign the others all the same, and
    hold some 30 KB for each while it waits for a connection, the signature growing old.

    `meter`, where given, is called with the operation's name and the read and write units that it consumed.
    """

    def __init__(self, client: Any, name: str, *, meter: Callable[[str, float], None] | None = None) -> None:
        self._client = client
        self._meter = meter
        self._room = asyncio.Semaphore(CONNECTIONS)
        self.name = name

    async def get(self, key: Item) -> Item | None:
        """One item, by a consistent read."""
        answer = await self._call("get_item", Key=to_wire(key), ConsistentRead=True)
        return from_wire(answer["Item"]) if "Item" in answer else None

    async def batch_get(self, keys: Sequence[Item]) -> list[Item]:
        """Many items in any order, by consistent reads of up to 100 keys a request; those that are missing are left out.

        A key that comes twice is read once. DynamoDB refuses such a request, and what several queries found may have an item twice that
        moved from the one to the other meanwhile.
        """
        found: list[Item] = []
        wanted = [to_wire(key) for key in {(key["pk"], key["sk"]): key for key in keys}.values()]
        while wanted:
            request = {self.name: {"Keys": wanted[:_BATCH_GET_LIMIT], "ConsistentRead": True}}
            answer = await self._call("batch_get_item", tabled=False, RequestItems=request)
            found += [from_wire(item) for item in answer["Responses"].get(self.name, [])]
            wanted = wanted[_BATCH_GET_LIMIT:] + answer.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
        return found

    async def put(self, item: Item, *, condition: Item | None = None) -> None:
        """Write one item; `condition` holds ConditionExpression and what belongs to it."""
        await self._call("put_item", Item=to_wire(item), ReturnValuesOnConditionCheckFailure="ALL_OLD", **(condition or {}))

    async def update(self, key: Item, **expression: Any) -> Item:
        """Change one item and return all of it as it then is."""
        answer = await self._call(
            "update_item",
            Key=to_wire(key),
            ReturnValues="ALL_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **expression,
        )
        return from_wire(answer["Attributes"])

    async def delete(self, key: Item) -> None:
        """Remove one item; nothing happens where there is none."""
        await self._call("delete_item", Key=to_wire(key))

    async def query(
        self,
        *,
        key_condition: str,
        values: Item,
        index: str | None = None,
        names: dict[str, str] | None = None,
        limit: int | None = None,
        forward: bool = True,
        start: Item | None = None,
        consistent: bool = False,
    ) -> Page:
        """One page of a query: one request, at most `limit` items evaluated."""
        request: dict[str, Any] = {
            "KeyConditionExpression": key_condition,
            "ExpressionAttributeValues": to_wire(values),
            "ScanIndexForward": forward,
            "ConsistentRead": consistent,
        }
        optional = {"IndexName": index, "ExpressionAttributeNames": names, "Limit": limit}
        request |= {name: value for name, value in optional.items() if value is not None}
        if start is not None:
            request["ExclusiveStartKey"] = to_wire(start)
        answer = await self._call("query", **request)
        last = answer.get("LastEvaluatedKey")
        return Page(items=[from_wire(item) for item in answer["Items"]], next_key=from_wire(last) if last else None)

    async def query_all(self, **query: Any) -> AsyncIterator[Item]:
        """All items of a query, page by page. For partitions that are bounded by what they hold, such as one job's events."""
        start: Item | None = None
        while True:
            page = await self.query(start=start, **query)
            for item in page.items:
                yield item
            if page.next_key is None:
                return
            start = page.next_key

    async def count(self, *, key_condition: str, values: Item, index: str | None = None) -> int:
        """How many items a query meets, page by page; nothing but numbers is sent."""
        request: dict[str, Any] = {"KeyConditionExpression": key_condition, "ExpressionAttributeValues": to_wire(values)}
        if index is not None:
            request["IndexName"] = index
        total = 0
        start: Item | None = None
        while True:
            extra: dict[str, Any] = {"ExclusiveStartKey": start} if start else {}
            answer = await self._call("query", Select="COUNT", **request, **extra)
            total += int(answer["Count"])
            start = answer.get("LastEvaluatedKey")
            if start is None:
                return total

    async def transact(self, actions: Callable[[int], list[Item]]) -> None:
        """Write all actions or none. A single Put needs no transaction and costs half of one.

        `actions` is called with the number of the try (from 0), so that a writer can step aside to another counter shard when its
        transaction met another.
        Raises ConditionFailedError, or UnavailableError when it stayed busy.
        """

        async def write(tries: int) -> None:
            async with self._room:
                await self._send_all(actions(tries))

        try:
            await again(write, _while_busy)
        except _BusyError as busy:
            raise UnavailableError(str(busy)) from busy

    async def _send_all(self, actions: list[Item]) -> None:
        if len(actions) == 1 and "Put" in actions[0]:
            await self._send("put_item", **actions[0]["Put"])
        else:
            await self._send("transact_write_items", tabled=False, TransactItems=actions)

    async def _call(self, operation: str, **request: Any) -> Any:
        async with self._room:
            return await self._send(operation, **request)

    async def _send(self, operation: str, *, tabled: bool = True, **request: Any) -> Any:
        if tabled:
            request["TableName"] = self.name
        if self._meter is not None:
            request["ReturnConsumedCapacity"] = "TOTAL"
        try:
            answer = await getattr(self._client, operation)(**request)
        except ClientError as error:
            raise _translate(error) from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"DynamoDB {operation}: {error}") from error
        if self._meter is not None:
            self._meter(operation, _units(answer.get("ConsumedCapacity")))
        return answer


def _while_busy() -> tenacity.AsyncRetrying:
    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(_BusyError),
        wait=tenacity.wait_random_exponential(multiplier=0.02, max=2.0),
        stop=tenacity.stop_after_attempt(12),
        reraise=True,
    )


def _translate(error: ClientError) -> FleetError:
    response = error.response
    code = response.get("Error", {}).get("Code", "")
    if code == "ConditionalCheckFailedException":
        item = response.get("Item")
        return ConditionFailedError([True], [from_wire(item) if item else None])
    if code == "TransactionCanceledException":
        reasons = response.get("CancellationReasons", [])
        failed = [reason.get("Code") == "ConditionalCheckFailed" for reason in reasons]
        if any(failed):
            return ConditionFailedError(failed, [from_wire(reason["Item"]) if reason.get("Item") else None for reason in reasons])
        if any(reason.get("Code") in _TRANSIENT_REASONS for reason in reasons):
            return _BusyError(f"DynamoDB transaction: {error}")
    if code in {"TransactionInProgressException", "TransactionConflictException"}:
        return _BusyError(f"DynamoDB: {error}")
    if code == "ValidationException":
        raise error
    return UnavailableError(f"DynamoDB: {error}")


def _units(capacity: Any) -> float:
    if isinstance(capacity, list):
        return sum(_units(one) for one in capacity)
    return float(capacity["CapacityUnits"]) if capacity else 0.0

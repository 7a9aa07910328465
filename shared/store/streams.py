"""The table's stream, shard by shard, and how far each has been read.

DynamoDB keeps what is in a stream for 24 hours. A shard is closed after some hours, and others follow it; one that is closed is read to
its end and then left alone. GetRecords consumes nothing of the table's capacity: it costs 0.02 USD per 100,000 calls, the first 2.5 million
a month are free, and one call a second is 2.6 million a month and shard (https://aws.amazon.com/dynamodb/pricing/on-demand/). Readers on
Lambda pay none.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import AwareDatetime, ValidationError

from shared.errors import FleetError, UnavailableError
from shared.jobs.model import Event, Record
from shared.store import items, keys
from shared.store.table import ConditionFailedError, Table

RETENTION: Final = timedelta(hours=24)
"""How long a stream keeps a record."""
MAX_RECORDS: Final = 1000
"""Of one call."""

log = structlog.get_logger()


class TrimmedError(FleetError):
    """What should be read on from is no longer in the stream."""


class ExpiredError(FleetError):
    """An iterator is older than 15 minutes, or its stream is gone; another one must be asked for."""


class Checkpoint(Record):
    """How far a shard has been read, and who reads it until when. `sequence`: the last record that was seen to (None: none yet).

    `seen_at`: at this time everything had been seen that was in the shard, or what was not had not been there for long.
    """

    shard: str
    owner: str
    until: AwareDatetime
    sequence: str | None = None
    seen_at: AwareDatetime | None = None
    closed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One record of the stream: `event` where it is a new event of a job."""

    sequence: str
    event: Event | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What one call brought. `iterator` goes on; None at the end of a closed shard."""

    records: list[Told]
    iterator: str | None


class TableStream:
    """Reads the stream of one table. Every method may raise UnavailableError."""

    def __init__(self, streams: Any, dynamodb: Any, table: str) -> None:
        self._streams = streams
        self._dynamodb = dynamodb
        self._table = table

    async def arn(self) -> str:
        """The stream as it is named now. Raises UnavailableError where the table has none (bootstrap makes it)."""
        described = await _call(self._dynamodb.describe_table, TableName=self._table)
        spec = described["Table"].get("StreamSpecification", {})
        if not spec.get("StreamEnabled"):
            raise UnavailableError(f"table {self._table} has no stream; `gpufleet bootstrap` makes it")
        return str(described["Table"]["LatestStreamArn"])

    async def shards(self, arn: str) -> list[str]:
        """All shards of the stream, the closed ones of the last 24 hours among them, oldest first."""
        found: list[str] = []
        start: dict[str, str] = {}
        while True:
            described = (await _call(self._streams.describe_stream, StreamArn=arn, Limit=100, **start))["StreamDescription"]
            found += [shard["ShardId"] for shard in described.get("Shards", [])]
            last = described.get("LastEvaluatedShardId")
            if last is None:
                return found
            start = {"ExclusiveStartShardId": last}

    async def iterator(self, arn: str, shard: str, *, after: str | None) -> str:
        """Where to read: behind a record, or from the oldest that there is. Raises TrimmedError where that record is no more."""
        where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": after} if after else {"ShardIteratorType": "TRIM_HORIZON"}
        return str((await _call(self._streams.get_shard_iterator, StreamArn=arn, ShardId=shard, **where))["ShardIterator"])

    async def read(self, iterator: str) -> Batch:
        """The next records. Raises TrimmedError, ExpiredError."""
        answer = await _call(self._streams.get_records, ShardIterator=iterator, Limit=MAX_RECORDS)
        return Batch(records=[told(record) for record in answer.get("Records", [])], iterator=answer.get("NextShardIterator"))


def told(record: dict[str, Any]) -> Told:
    """A record of the stream, as GetRecords and Lambda give it alike.

    An event that can't be read, as none of this release or an earlier one is, is told to nobody: it would hold up all behind it for a day.
    """
    change = record["dynamodb"]
    sort_key = change["Keys"].get("sk", {}).get("S", "")
    new = record.get("eventName") == "INSERT" and sort_key.startswith(keys.EVENT) and "NewImage" in change
    event = None
    if new:
        try:
            event = items.from_item(Event, items.from_wire(change["NewImage"]))
        except ValidationError as error:
            why = error.errors(include_input=False, include_url=False)
            log.error("an event can't be read, and is told to nobody", job=change["Keys"]["pk"]["S"], sort_key=sort_key, error=str(why))
    return Told(sequence=str(change["SequenceNumber"]), event=event)


class Checkpoints:
    """Who reads which shard of a stream, and how far it has been read."""

    def __init__(self, table: Table, stream: str) -> None:
        self._table = table
        self._stream = stream

    async def all(self) -> dict[str, Checkpoint]:
        """All that stand, by shard."""
        found = self._table.query_all(key_condition="pk = :pk", values={":pk": keys.checkpoint(self._stream, "")["pk"]}, consistent=True)
        checkpoints = [items.from_item(Checkpoint, item) async for item in found]
        return {checkpoint.shard: checkpoint for checkpoint in checkpoints}

    async def take(self, shard: str, *, owner: str, now: datetime, until: datetime) -> Checkpoint | None:
        """Take a shard that nobody reads (any more), with how far it has been read; None where somebody does, or it is done with."""
        taken = Checkpoint(shard=shard, owner=owner, until=until)
        values: dict[str, Any] = {
            ":shard": shard,
            ":owner": owner,
            ":until": items.to_item(taken)["until"],
            ":lease": _milliseconds(until),
            ":now": _milliseconds(now),
            ":no": False,
            ":expires": _expires(until),
        }
        try:
            item = await self._table.update(
                keys.checkpoint(self._stream, shard),
                UpdateExpression="SET #owner = :owner, #until = :until, lease = :lease, #shard = :shard, closed = :no, expires = :expires",
                ConditionExpression="attribute_not_exists(pk) OR (closed = :no AND (lease < :now OR #owner = :owner))",
                ExpressionAttributeNames={"#owner": "owner", "#until": "until", "#shard": "shard"},
                ExpressionAttributeValues=items.to_wire(values),
            )
        except ConditionFailedError:
            return None
        return items.from_item(Checkpoint, item)

    async def keep(self, checkpoint: Checkpoint) -> bool:
        """Write how far one's own shard has been read; False where it is somebody else's by now."""
        item: items.Item = keys.checkpoint(self._stream, checkpoint.shard) | items.to_item(checkpoint)
        item |= {"lease": _milliseconds(checkpoint.until), "expires": _expires(checkpoint.until)}
        condition: dict[str, Any] = {
            "ConditionExpression": "#owner = :owner",
            "ExpressionAttributeNames": {"#owner": "owner"},
            "ExpressionAttributeValues": items.to_wire({":owner": checkpoint.owner}),
        }
        try:
            await self._table.put(item, condition=condition)
        except ConditionFailedError:
            return False
        return True


def _milliseconds(moment: datetime) -> int:
    """A time that DynamoDB can compare."""
    return int(moment.timestamp() * 1000)


def _expires(until: datetime) -> int:
    """Checkpoints outlive what is in their shards, and then go."""
    return int((until + 2 * RETENTION).timestamp())


async def _call(operation: Any, **request: Any) -> Any:
    try:
        return await operation(**request)
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code == "TrimmedDataAccessException":
            raise TrimmedError(str(error)) from error
        if code in {"ExpiredIteratorException", "ResourceNotFoundException"}:
            raise ExpiredError(str(error)) from error
        raise UnavailableError(f"DynamoDB stream: {error}") from error
    except (BotoCoreError, OSError, TimeoutError) as error:
        raise UnavailableError(f"DynamoDB stream: {error}") from error

"""Makes what a fleet needs on any AWS endpoint: the table with its indexes, the queues with their dead letters, the bucket.

Idempotent, and safe to run twice at once: each step is "make it, or see that it stands". What stands with another shape is never changed;
it is refused by name, since a table without an index would fail later and in other words.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.aws import Aws
from shared.errors import ConflictError, InvalidError, UnavailableError
from shared.settings import Settings, dead_letter_queue
from shared.store import keys
from shared.store.lifecycle import LIFECYCLE, OURS
from shared.store.names import name_problems

MAX_RECEIVES = 5
"""How often a message is received before SQS puts it among the dead letters."""
_DAY = 86_400
QUEUE_ATTRIBUTES = {"VisibilityTimeout": "60", "ReceiveMessageWaitTimeSeconds": "20", "MessageRetentionPeriod": str(4 * _DAY)}
DEAD_LETTER_ATTRIBUTES = {"MessageRetentionPeriod": str(14 * _DAY)}
EXPIRES = "expires"
"""The attribute by which items expire."""
_READY_PROJECTION = ("fence", "priority", "namespace")
"""What a dispatcher must know of a ready job to claim it, so that it needs no read before."""
_STREAM = {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}
"""Events of jobs are told to subscribers from here, so that they cost no write of their own."""
_UNSUPPORTED = {"UnknownOperationException", "UnsupportedOperation", "NotImplemented", "InvalidAction"}
_WAIT = {"Delay": 1, "MaxAttempts": 120}


class ShapeError(ConflictError):
    """Something stands under our name with another shape; the message names it and says what differs."""


@dataclass(kw_only=True)
class Report:
    """What was made and what stood already, by kind and name; `notes` tell of what the endpoint doesn't support."""

    made: list[str] = field(default_factory=list)
    stood: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def say(self, what: str, *, made: bool) -> None:
        """Note one part."""
        (self.made if made else self.stood).append(what)


async def bootstrap(aws: Aws, settings: Settings) -> Report:
    """Make table, queues and bucket, or see that they stand.

    Raises InvalidError before anything is made for names that AWS doesn't take, ShapeError for what stands with another shape,
    UnavailableError where AWS doesn't answer or forbids.
    """
    _require_names(settings)
    report = Report()
    async with _translated():
        parts = [
            _table(aws.dynamodb, settings.table, report),
            *(_queue(aws.sqs, name, report) for name in settings.queues()),
            _bucket(aws.s3, settings, report),
        ]
        for failure in await asyncio.gather(*parts, return_exceptions=True):
            if failure is not None:
                raise failure
    return report


async def table_stands(aws: Aws, settings: Settings) -> bool:
    """Whether there is a table of this name, whatever its shape. Raises InvalidError, UnavailableError."""
    _require_names(settings)
    async with _translated():
        try:
            await aws.dynamodb.describe_table(TableName=settings.table)
        except ClientError as error:
            if _code(error) != "ResourceNotFoundException":
                raise
            return False
    return True


def _require_names(settings: Settings) -> None:
    if problems := name_problems(settings):
        raise InvalidError(problems)


@asynccontextmanager
async def _translated() -> AsyncIterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
        raise UnavailableError(f"bootstrap: {error}") from error


async def _table(client: Any, name: str, report: Report) -> None:
    made = True
    try:
        await client.create_table(**table_shape(name))
    except ClientError as error:
        if _code(error) != "ResourceInUseException":
            raise
        made = False
    await client.get_waiter("table_exists").wait(TableName=name, WaiterConfig=_WAIT)
    found = (await client.describe_table(TableName=name))["Table"]
    _check_table(found)
    await _stream(client, found)
    await _expiry(client, name)
    await _recovery(client, name, report)
    report.say(f"table {name}", made=made)


def table_shape(name: str) -> dict[str, Any]:
    """The table as a request of CreateTable; what deploys the fleet makes the same of it. Its items expire by `EXPIRES`."""
    attributes = ("pk", "sk", *keys.INDEX_KEYS)
    return {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": attribute, "AttributeType": "S"} for attribute in attributes],
        "KeySchema": _key_schema("pk", "sk"),
        "StreamSpecification": _STREAM,
        "GlobalSecondaryIndexes": [
            {"IndexName": index, "KeySchema": _key_schema(*pair), "Projection": _projection(index)} for index, pair in keys.INDEXES.items()
        ],
    }


def _key_schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def _projection(index: str) -> dict[str, Any]:
    if index == keys.READY_INDEX:
        return {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(_READY_PROJECTION)}
    return {"ProjectionType": "KEYS_ONLY"}


def _check_table(found: dict[str, Any]) -> None:
    name = found["TableName"]
    if _keys_of(found) != ("pk", "sk"):
        raise ShapeError(f"table {name}: its key is {_keys_of(found)}, and must be pk, sk")
    standing = {index["IndexName"]: index for index in found.get("GlobalSecondaryIndexes", [])}
    for index, pair in keys.INDEXES.items():
        if index not in standing:
            raise ShapeError(f"table {name}: the index {index} ({', '.join(pair)}) is missing")
        if _keys_of(standing[index]) != pair:
            raise ShapeError(f"table {name}: the key of the index {index} is {_keys_of(standing[index])}, and must be {pair}")
        _check_projection(name, index, standing[index].get("Projection", {}))


def _check_projection(name: str, index: str, projection: dict[str, Any]) -> None:
    if index != keys.READY_INDEX or projection.get("ProjectionType") == "ALL":
        return
    missing = set(_READY_PROJECTION) - set(projection.get("NonKeyAttributes", []))
    if missing:
        raise ShapeError(f"table {name}: the index {index} does not project {', '.join(sorted(missing))}")


def _keys_of(described: dict[str, Any]) -> tuple[str, ...]:
    return tuple(key["AttributeName"] for key in sorted(described["KeySchema"], key=lambda key: key["KeyType"]))


async def _stream(client: Any, found: dict[str, Any]) -> None:
    """A table that was made before there were subscribers gets its stream now."""
    name, standing = found["TableName"], found.get("StreamSpecification", {})
    if not standing.get("StreamEnabled"):
        try:
            await client.update_table(TableName=name, StreamSpecification=_STREAM)
        except ClientError as error:
            # Another bootstrap was faster.
            if _code(error) not in {"ResourceInUseException", "ValidationException"}:
                raise
        await client.get_waiter("table_exists").wait(TableName=name, WaiterConfig=_WAIT)
    elif standing.get("StreamViewType") not in {"NEW_IMAGE", "NEW_AND_OLD_IMAGES"}:
        raise ShapeError(f"table {name}: its stream shows {standing.get('StreamViewType')}, and must show NEW_IMAGE")


async def _expiry(client: Any, name: str) -> None:
    described = (await client.describe_time_to_live(TableName=name))["TimeToLiveDescription"]
    if described.get("TimeToLiveStatus", "DISABLED") in {"ENABLED", "ENABLING"}:
        if described.get("AttributeName", EXPIRES) != EXPIRES:
            raise ShapeError(f"table {name}: items expire by {described['AttributeName']}, and must expire by '{EXPIRES}'")
        return
    try:
        await client.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": EXPIRES})
    except ClientError as error:
        # Another bootstrap was faster.
        if "already enabled" not in str(error):
            raise


async def _recovery(client: Any, name: str, report: Report) -> None:
    try:
        described = await client.describe_continuous_backups(TableName=name)
        recovery = described["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        if recovery.get("PointInTimeRecoveryStatus") != "ENABLED":
            wanted = {"PointInTimeRecoveryEnabled": True}
            await client.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=wanted)
    except ClientError as error:
        if _code(error) not in _UNSUPPORTED:
            raise
        report.notes.append(f"table {name}: this endpoint has no point-in-time recovery")


async def _queue(client: Any, name: str, report: Report) -> None:
    dead = dead_letter_queue(name)
    dead_url, dead_made = await _make_queue(client, dead, DEAD_LETTER_ATTRIBUTES)
    dead_arn = (await _attributes(client, dead_url))["QueueArn"]
    policy = {"deadLetterTargetArn": dead_arn, "maxReceiveCount": MAX_RECEIVES}
    url, made = await _make_queue(client, name, QUEUE_ATTRIBUTES | {"RedrivePolicy": json.dumps(policy)})
    standing = json.loads((await _attributes(client, url)).get("RedrivePolicy") or "{}")
    if standing.get("deadLetterTargetArn") != dead_arn:
        raise ShapeError(
            f"queue {name}: its dead letters go to {standing.get('deadLetterTargetArn', 'nowhere')}, and must go to {dead_arn}"
        )
    report.say(f"queue {dead}", made=dead_made)
    report.say(f"queue {name}", made=made)


async def _make_queue(client: Any, name: str, attributes: dict[str, str]) -> tuple[str, bool]:
    try:
        return (await client.get_queue_url(QueueName=name))["QueueUrl"], False
    except ClientError as error:
        if not _code(error).endswith(("NonExistentQueue", "QueueDoesNotExist")):
            raise
    try:
        return (await client.create_queue(QueueName=name, Attributes=attributes))["QueueUrl"], True
    except ClientError as error:
        # Another bootstrap was faster, with an older version's attributes.
        if not _code(error).endswith(("QueueNameExists", "QueueAlreadyExists")):
            raise
        return (await client.get_queue_url(QueueName=name))["QueueUrl"], False


async def _attributes(client: Any, url: str) -> dict[str, str]:
    answer = await client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn", "RedrivePolicy"])
    return dict(answer["Attributes"])


async def _bucket(client: Any, settings: Settings, report: Report) -> None:
    made = not await _bucket_stands(client, settings.bucket) and await _make_bucket(client, settings.bucket, settings.control_region)
    await _keep_for(client, settings.bucket, report)
    report.say(f"bucket {settings.bucket}", made=made)


async def _make_bucket(client: Any, name: str, region: str) -> bool:
    """False where another bootstrap was faster."""
    # S3 refuses to be told of us-east-1, its oldest region, and wants to be told of any other.
    place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    try:
        await client.create_bucket(Bucket=name, **place)
    except ClientError as error:
        if _code(error) == "BucketAlreadyExists":
            raise ShapeError(f"bucket {name}: the name belongs to another account") from error
        if _code(error) not in {"BucketAlreadyOwnedByYou", "OperationAborted"}:
            raise
        return False
    blocked = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    await client.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=dict.fromkeys(blocked, True))
    return True


async def _keep_for(client: Any, name: str, report: Report) -> None:
    """Our rules of how long what is kept, beside those that others have made. Whoever may only use the bucket leaves them as they are."""
    wanted = [rule.as_request() for rule in LIFECYCLE]
    try:
        standing = await _lifecycle_of(client, name)
        if _told(standing) >= _told(wanted):
            return
        others = [rule for rule in standing if not str(rule.get("ID", "")).startswith(OURS)]
        await client.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": [*others, *wanted]})
    except ClientError as error:
        if _code(error) in {"AccessDenied", "403"}:
            report.notes.append(f"bucket {name}: how long it keeps what could not be seen or set: {error}")
        elif _code(error) in _UNSUPPORTED:
            report.notes.append(f"bucket {name}: this endpoint has no lifecycle rules")
        elif _code(error) != "OperationAborted":  # another bootstrap was faster
            raise


async def _lifecycle_of(client: Any, name: str) -> list[dict[str, Any]]:
    try:
        return list((await client.get_bucket_lifecycle_configuration(Bucket=name)).get("Rules", []))
    except ClientError as error:
        if _code(error) != "NoSuchLifecycleConfiguration":
            raise
        return []


def _told(rules: list[dict[str, Any]]) -> set[str]:
    """What of rules matters here, however an endpoint writes the rest."""
    parts = ("ID", "Status", "Filter", "Expiration", "NoncurrentVersionExpiration", "AbortIncompleteMultipartUpload")
    return {json.dumps({part: rule.get(part) for part in parts}, sort_keys=True, default=str) for rule in rules}


async def _bucket_stands(client: Any, name: str) -> bool:
    try:
        await client.head_bucket(Bucket=name)
    except ClientError as error:
        if _code(error) in {"404", "NoSuchBucket", "NotFound"}:
            return False
        if _code(error) in {"403", "AccessDenied", "Forbidden"}:
            raise ShapeError(f"bucket {name}: it stands, and we may not use it (another account's?)") from error
        raise
    return True


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))

"""What each worker may do on AWS: the only place where rights are granted.

The test suite records what the workers ask of AWS and holds it against this, both ways: nothing is missing, nothing is granted that is
never used (`tests/infra/privileges`). The stacks render it by `infra.policies`.

Actions are those that IAM asks for, which are not always those that are called
(https://docs.aws.amazon.com/service-authorization/latest/reference/): a transaction needs the right to each of its writes, a batch of SQS
that to the single call, HeadObject that to GetObject; whoever reads objects that may be missing needs ListBucket, else S3 says 403 for 404.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from infra import resources as r
from infra.functions import FUNCTIONS
from infra.resources import Resource

Conditions = Mapping[str, Mapping[str, str | tuple[str, ...]]]
"""Operator to key to value; `{regions}` in a value stands for the regions of the fleet, `{region}` for the worker's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """Some actions on some resources. Each of the actions is used on each of the resources."""

    actions: tuple[str, ...]
    resources: tuple[Resource, ...]
    conditions: Conditions = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """The rights of one worker, and who takes them on: a Lambda function, or a pod by EKS Pod Identity."""

    worker: str
    statements: tuple[Statement, ...]
    pod: bool = False


def _may(actions: str, *on: Resource, conditions: Conditions | None = None) -> Statement:
    """`actions` is a service, a colon, and its actions separated by spaces."""
    service, _, names = actions.partition(":")
    return Statement(actions=tuple(f"{service}:{name}" for name in names.split()), resources=on, conditions=conditions or {})


def _partitions(*patterns: str) -> Conditions:
    """Only items, and entries of indexes, whose partition keys are like these (`shared.store.keys`)."""
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": patterns}}


_HERE: Final[Conditions] = {"StringEquals": {"aws:RequestedRegion": ("{regions}",)}}
_IN_ITS_REGION: Final[Conditions] = {"StringEquals": {"aws:RequestedRegion": ("{region}",)}}
_SPOT: Final = r.anything("EC2 knows no resource of a price")
_PRICES: Final = r.anything("the Price List API has no resources")
_STREAMS: Final = r.anything("the streams of all tables are listed, or none")
_METRICS: Final = r.anything("CloudWatch has no resource of a metric")

_DISPATCH: Final = r.queue(r.DISPATCH)
_OWN: Final = r.queue(r.DISPATCH, own=True)
_ALL: Final = (*(r.queue(name) for name in r.QUEUES), _DISPATCH)
_ALL_DEAD: Final = (*(r.dead_letters(name) for name in r.QUEUES), r.dead_letters(r.DISPATCH))

_SPECIFICATIONS: Final = r.objects("specifications/")
_TEMPLATES: Final = r.objects("templates/")
_LOGS: Final = r.objects("logs/")
_USAGE: Final = r.objects("usage/")
_SCRAPES: Final = r.objects("metrics/")
_SUBMISSIONS: Final = r.objects("submissions/")
_REPORTS: Final = tuple(r.objects(f"{name}/") for name in ("reports", "jobs", "summaries"))
_ADHOC: Final = tuple(r.objects(f"{name}/") for name in ("adhoc", "adhoc-jobs", "adhoc-summaries"))


def _behind(name: str) -> Statement:
    """What Lambda's poller does with a queue, in the name of the function behind it."""
    return _may("sqs:ReceiveMessage DeleteMessage GetQueueAttributes", r.queue(name))


def _function(worker: str, *statements: Statement) -> Role:
    """The role of the Lambda functions of a worker, which write their logs as well. The log groups are made by the stack."""
    logs = tuple(r.logs(function.name) for function in FUNCTIONS if function.role == worker)
    return Role(worker=worker, statements=(*statements, _may("logs:CreateLogStream PutLogEvents", *logs)))


API: Final = _function(
    "api",
    # All partitions: it is the door to everything that the table has, the keys of callers among it.
    _may("dynamodb:GetItem BatchGetItem PutItem UpdateItem DeleteItem", r.TABLE),
    _may("dynamodb:Query", r.TABLE, *(r.index(name) for name in ("ready", "due", "by_state", "by_namespace"))),
    _may("sqs:GetQueueUrl SendMessage", *_ALL),
    _may("sqs:GetQueueUrl GetQueueAttributes ReceiveMessage ChangeMessageVisibility DeleteMessage", *_ALL_DEAD),
    _may("s3:GetObject PutObject", _SPECIFICATIONS, _TEMPLATES, *_ADHOC),
    _may("s3:GetObject", _LOGS, *_REPORTS, _USAGE, _SCRAPES),
    _may("s3:ListBucket", r.BUCKET),
    _may("secretsmanager:CreateSecret PutSecretValue GetSecretValue DeleteSecret", r.SECRETS),
    _may("cloudwatch:GetMetricData ListMetrics", _METRICS),
    _may("ec2:DescribeSpotPriceHistory", _SPOT, conditions=_HERE),
    _may("pricing:GetProducts", _PRICES),
    _may("eks:DescribeCluster", r.CLUSTERS),
)

INGEST: Final = _function(
    "ingest",
    _behind("submissions"),
    _may(
        "dynamodb:GetItem BatchGetItem PutItem UpdateItem",
        r.TABLE,
        conditions=_partitions("JOB#*", "IDEM#*", "COUNT#*", "CLUSTER#*", "REGION#*", "REJECTION#*"),
    ),
    _may("dynamodb:Query", r.index("by_state"), conditions=_partitions("STATE#*")),
    _may("sqs:GetQueueUrl SendMessage", _DISPATCH, r.dead_letters("submissions")),
    _may("s3:GetObject", _SUBMISSIONS),
    _may("s3:PutObject", _SPECIFICATIONS),
    _may("s3:ListBucket", r.BUCKET),
)

WEBHOOKS_RELAY: Final = _function(
    "webhooks-relay",
    _may("dynamodb:DescribeStream GetShardIterator GetRecords", r.STREAM),
    _may("dynamodb:ListStreams", _STREAMS),
    _may("dynamodb:BatchGetItem", r.TABLE, conditions=_partitions("TOTAL#*")),
    _may("dynamodb:Query", r.TABLE, conditions=_partitions("WEBHOOKS#*")),
    _may("sqs:GetQueueUrl SendMessage", r.queue("events")),
)

_DELIVERIES: Final = _partitions("JOB#*", "WEBHOOK#*", "WEBHOOKS#*")

WEBHOOKS: Final = _function(
    "webhooks",
    _behind("events"),
    _may("dynamodb:GetItem PutItem UpdateItem", r.TABLE, conditions=_DELIVERIES),
    _may("dynamodb:Query", r.TABLE, conditions=_partitions("JOB#*", "WEBHOOKS#*")),
    _may("dynamodb:Query", r.index("by_namespace"), conditions=_partitions("DELIVERIES#*")),
    _may("secretsmanager:GetSecretValue", r.SECRETS),
    _may("sqs:GetQueueUrl", r.queue("events")),
    _may("sqs:GetQueueUrl SendMessage", r.dead_letters("events")),
)

WEBHOOKS_SWEEP: Final = _function(
    "webhooks-sweep",
    _may("dynamodb:GetItem BatchGetItem PutItem UpdateItem", r.TABLE, conditions=_DELIVERIES),
    _may("dynamodb:Query", r.TABLE, conditions=_partitions("JOB#*")),
    _may("secretsmanager:GetSecretValue", r.SECRETS),
    _may("dynamodb:Query", r.index("due"), conditions=_partitions("DUE#webhooks#*")),
    _may("dynamodb:Query", r.index("by_namespace"), conditions=_partitions("DELIVERIES#*")),
    _may("sqs:GetQueueUrl", r.queue("events"), r.dead_letters("events")),
)

SWEEPER: Final = _function(
    "sweeper",
    _may("dynamodb:GetItem BatchGetItem PutItem UpdateItem", r.TABLE, conditions=_partitions("JOB#*", "COUNT#*", "REGION#*", "CLUSTER#*")),
    _may("dynamodb:Query", r.index("due"), conditions=_partitions("DUE#*")),
    _may("dynamodb:Query", r.index("by_state"), conditions=_partitions("STATE#*")),
    _may("sqs:GetQueueUrl SendMessage", _DISPATCH),
    _may("ec2:DescribeSpotPriceHistory", _SPOT, conditions=_HERE),
)

COSTS: Final = _function(
    "costs",
    _behind("tasks"),
    _may("sqs:GetQueueUrl SendMessage", r.dead_letters("tasks")),
    _may("s3:GetObject PutObject", *_REPORTS),
    _may("s3:GetObject", _USAGE),
    _may("s3:ListBucket", r.BUCKET),
    _may("ec2:DescribeSpotPriceHistory", _SPOT, conditions=_HERE),
    _may("pricing:GetProducts", _PRICES),
)

METRICS: Final = _function(
    "metrics",
    _may("s3:PutObject", _SCRAPES),
    _may("cloudwatch:PutMetricData", _METRICS, conditions={"StringEquals": {"cloudwatch:namespace": "gpufleet/devices"}}),
    _may("eks:DescribeCluster", r.CLUSTERS),
)

HEALTH: Final = _function(
    "health",
    _may("dynamodb:BatchGetItem", r.TABLE, conditions=_partitions("TOTAL#*", "CLUSTER#*", "REGION#*", "COUNT#*", "JOB#*", "WEBHOOKS#*")),
    _may("dynamodb:Query", r.TABLE, conditions=_partitions("LOOPS")),
    _may(
        "dynamodb:Query",
        *(r.index(name) for name in ("ready", "due", "by_state")),
        conditions=_partitions("READY#*", "DUE#*", "STATE#*", "WEBHOOKS"),
    ),
    _may("sqs:GetQueueUrl GetQueueAttributes", *_ALL_DEAD),
    _may("s3:GetObject", _SCRAPES),
    _may("s3:ListBucket", r.BUCKET),
)

DISPATCHER: Final = Role(
    worker="dispatcher",
    pod=True,
    statements=(
        _may(
            "dynamodb:GetItem BatchGetItem PutItem UpdateItem",
            r.TABLE,
            conditions=_partitions("JOB#*", "COUNT#{region}#*", "REGION#{region}", "LOOPS"),
        ),
        _may("dynamodb:Query", r.TABLE, conditions=_partitions("LOOPS")),
        _may("dynamodb:Query", r.index("ready"), conditions=_partitions("READY#{region}#*")),
        _may("sqs:GetQueueUrl SendMessage ReceiveMessage ChangeMessageVisibility DeleteMessage", _OWN),
        _may("sqs:GetQueueUrl SendMessage", r.dead_letters(r.DISPATCH, own=True)),
        _may("s3:GetObject", _SPECIFICATIONS),
        _may("s3:PutObject", _LOGS),
    ),
)

OBSERVER: Final = Role(
    worker="observer",
    pod=True,
    statements=(
        _may(
            "dynamodb:BatchGetItem PutItem UpdateItem",
            r.TABLE,
            conditions=_partitions("JOB#*", "COUNT#{region}#*", "CLUSTER#{region}", "LOOPS"),
        ),
        _may("dynamodb:Query", r.TABLE, conditions=_partitions("LOOPS")),
        _may("dynamodb:Query", r.index("by_state"), conditions=_partitions("STATE#{region}#*")),
        _may("sqs:GetQueueUrl SendMessage", _OWN),
        _may("s3:GetObject", _SPECIFICATIONS),
        _may("s3:PutObject", _LOGS, _USAGE),
        _may("ec2:DescribeSpotPriceHistory", _SPOT, conditions=_IN_ITS_REGION),
        _may("pricing:GetProducts", _PRICES),
    ),
)

ROLES: Final = (API, INGEST, WEBHOOKS_RELAY, WEBHOOKS, WEBHOOKS_SWEEP, SWEEPER, COSTS, METRICS, HEALTH, DISPATCHER, OBSERVER)


def role(worker: str) -> Role:
    """The role of a worker. Raises KeyError."""
    return {one.worker: one for one in ROLES}[worker]

"""What a right is for: the table, a queue, a part of the bucket, named without any account; `Names` turns them into ARNs.

The values of `Names` may be tokens of CDK: nothing here looks into them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

QUEUES: Final = ("submissions", "events", "tasks", "scrapes")
"""The queues of the control region that there is one of."""
DISPATCH: Final = "dispatch"
"""The queues of doorbells, one for each region."""


class Kind(StrEnum):
    """The sorts of resources."""

    TABLE = "table"
    INDEX = "index"
    STREAM = "stream"
    BUCKET = "bucket"
    OBJECTS = "objects"
    QUEUE = "queue"
    DEAD_LETTERS = "dead letters"
    SECRETS = "secrets"
    CLUSTERS = "clusters"
    KEY = "key"
    LOGS = "logs"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Resource:
    """One sort of resource, and which of them.

    | kind | `name` |
    |---|---|
    | index | the index |
    | objects | what keys begin with |
    | queue, dead letters | one of `QUEUES`, or `dispatch` |
    | logs | the Lambda function |
    | any | why the action knows no narrower resource |

    `own` narrows `dispatch` to the worker's own region.
    """

    kind: Kind
    name: str = ""
    own: bool = False

    def __str__(self) -> str:
        told = f"{self.kind} {self.name}" if self.name else str(self.kind)
        return f"{told} of its region" if self.own else told


TABLE: Final = Resource(Kind.TABLE)
STREAM: Final = Resource(Kind.STREAM)
BUCKET: Final = Resource(Kind.BUCKET)
SECRETS: Final = Resource(Kind.SECRETS)
CLUSTERS: Final = Resource(Kind.CLUSTERS)
KEY: Final = Resource(Kind.KEY)


def index(name: str) -> Resource:
    """An index of the table."""
    return Resource(Kind.INDEX, name)


def objects(prefix: str) -> Resource:
    """The objects of the bucket whose keys begin so."""
    return Resource(Kind.OBJECTS, prefix)


def queue(name: str, *, own: bool = False) -> Resource:
    """A queue; `dispatch` is all regions' unless `own`."""
    return Resource(Kind.QUEUE, name, own)


def dead_letters(name: str, *, own: bool = False) -> Resource:
    """The dead letters of a queue."""
    return Resource(Kind.DEAD_LETTERS, name, own)


def logs(function: str) -> Resource:
    """The log group of a Lambda function."""
    return Resource(Kind.LOGS, function)


def anything(why: str) -> Resource:
    """All resources, since the action knows none."""
    return Resource(Kind.ANY, why)


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """How the resources of an installation are called; see `Settings` for table, bucket, prefix and regions.

    `clusters` are the names of EKS clusters by region. `key` is the ARN of the key that table, bucket and queues are encrypted with;
    without one they are encrypted with keys of AWS, which need no rights. `own_region` is that of a worker that serves one.
    `secrets_prefix` begins the names of secrets; unless said, the table's name does.
    """

    account: str
    control_region: str
    regions: Sequence[str]
    table: str
    bucket: str
    queue_prefix: str
    clusters: dict[str, str]
    key: str | None = None
    own_region: str | None = None
    secrets_prefix: str | None = None
    partition: str = "aws"

    def arns(self, resource: Resource) -> list[str]:
        """The ARNs of a resource, of some of them more than one. Raises ValueError for `own` without a region."""
        kind, name = resource.kind, resource.name
        if kind in {Kind.TABLE, Kind.INDEX, Kind.STREAM}:
            return [self._in_control("dynamodb", f"table/{self.table}{_below_table(kind, name)}")]
        if kind in {Kind.BUCKET, Kind.OBJECTS}:
            bucket = f"arn:{self.partition}:s3:::{self.bucket}"
            return [bucket if kind is Kind.BUCKET else f"{bucket}/{name}*"]
        if kind in {Kind.QUEUE, Kind.DEAD_LETTERS}:
            tail = "-dead" if kind is Kind.DEAD_LETTERS else ""
            return [self._in_control("sqs", f"{self.queue_prefix}-{one}{tail}") for one in self._queues(resource)]
        if kind is Kind.SECRETS:
            return [self._in_control("secretsmanager", f"secret:{self.secrets_prefix or self.table}/*")]
        if kind is Kind.CLUSTERS:
            return [f"arn:{self.partition}:eks:{region}:{self.account}:cluster/{cluster}" for region, cluster in self.clusters.items()]
        if kind is Kind.LOGS:
            return [self._in_control("logs", f"log-group:/aws/lambda/{self.queue_prefix}-{name}:*")]
        if kind is Kind.KEY:
            return [self.key] if self.key is not None else []
        return ["*"]

    def _in_control(self, service: str, rest: str) -> str:
        return f"arn:{self.partition}:{service}:{self.control_region}:{self.account}:{rest}"

    def _queues(self, resource: Resource) -> list[str]:
        if resource.name != DISPATCH:
            return [resource.name]
        if not resource.own:
            return [f"{DISPATCH}-{region}" for region in self.regions]
        if self.own_region is None:
            raise ValueError(f"{resource}: no region is said")
        return [f"{DISPATCH}-{self.own_region}"]


def _below_table(kind: Kind, name: str) -> str:
    if kind is Kind.INDEX:
        return f"/index/{name}"
    return "/stream/*" if kind is Kind.STREAM else ""

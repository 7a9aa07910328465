"""The Lambda functions: what each runs, what calls it, how large it is. The stacks, the packages and the tests read this and nothing else.

No function reserves concurrency: a new account has a quota of ten and may reserve nothing of it, and every handler may run several times
at once (each change is conditional). What bounds them is the maximum concurrency of their event sources, and that a schedule calls once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

PYTHON: Final = "3.14"
ARCHITECTURE: Final = "arm64"
"""The runtime of all of them; arm64 costs a fifth less than x86_64 for the same time."""

QueueName = Literal["submissions", "events", "tasks"]
"""The queues of the control region that a function is behind; `Settings.<name>_queue` is the full name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpApiSource:
    """Requests of the HTTP API, in payload format 2.0: those under some paths, or all that no other function claims."""

    prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueSource:
    """Batches of an SQS queue, with `ReportBatchItemFailures`.

    `maximum_concurrency` is that of the event source mapping, 2 to 1000. Lambda's pollers ask an empty queue some 15 times a minute, which
    is 0.26 USD a month and queue.
    """

    queue: QueueName
    batch_size: int
    batching_window_seconds: int = 0
    maximum_concurrency: int = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamSource:
    """Batches of the table's stream, with `ReportBatchItemFailures`, from the oldest record on (TRIM_HORIZON).

    A batch that fails comes again until the stream drops it after a day, as for the loop; so no limit of tries and no destination of what
    failed. `filters` are patterns one of which a record must have; what has none costs nothing.
    """

    batch_size: int
    batching_window_seconds: int
    filters: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleSource:
    """A call each so many minutes with the same payload; `each_region`: one for each region of the fleet, with `"region"` in the payload.

    A call that failed is not made again: the next one does what it left.
    """

    minutes: int
    payload: Mapping[str, Any]
    each_region: bool = False

    def payloads(self, regions: tuple[str, ...]) -> tuple[Mapping[str, Any], ...]:
        """What the function is called with, one a schedule."""
        return tuple({**self.payload, "region": region} for region in regions) if self.each_region else (self.payload,)


Source = HttpApiSource | QueueSource | StreamSource | ScheduleSource


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """One function. `role` is a worker of `infra.roles`; its package is `build/lambdas/<name>.zip`.

    `environment` stands beside what all functions get (`GPUFLEET_…` of the installation). `reaches_clusters`: it needs
    `GPUFLEET_EKS_CLUSTERS`, the right to describe them, and an access entry in each.
    """

    name: str
    text: str
    handler: str
    role: str
    memory_mb: int
    timeout_seconds: int
    sources: tuple[Source, ...]
    reaches_clusters: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    """Modules of ours and distributions of others that it has no use for on Lambda, though its source names them."""
    zipped_mb: int = 20
    """How large its package may be."""

    @property
    def module(self) -> str:
        """The module that the handler is in."""
        return self.handler.rpartition(".")[0]

    @property
    def visibility_seconds(self) -> int:
        """The visibility timeout that a queue in front of it needs: six times its own, by Lambda's guide on event sources of SQS."""
        return 6 * self.timeout_seconds


_EVENTS_OF_JOBS: Final = {"eventName": ["INSERT"], "dynamodb": {"Keys": {"sk": {"S": [{"prefix": "EVENT#"}]}}}}

FUNCTIONS: Final = (
    Function(
        name="api",
        text="The API: both doors, behind API Gateway",
        handler="workers.api.lambda_handler.handler",
        role="api",
        # A cold start is work of the processor, of which there is as much as there is memory.
        memory_mb=1024,
        # An HTTP API waits 30 s for its integration.
        timeout_seconds=29,
        sources=(HttpApiSource(),),
        reaches_clusters=True,
        environment={"GPUFLEET_IDENTITY": "iam"},
        # API Gateway throttles; and who submits a job doesn't wait for what reads Parquet.
        without=("workers.api.rate_limits", "pyarrow"),
        zipped_mb=30,
    ),
    Function(
        name="api-costs",
        text="The paths of the API that read and write cost reports, apart since Parquet is three times as large as all the rest",
        handler="workers.api.lambda_handler.handler",
        role="api",
        memory_mb=1024,
        timeout_seconds=29,
        sources=(HttpApiSource(prefixes=("/api/v1/cost", "/fleet/v1/costs")),),
        environment={"GPUFLEET_IDENTITY": "iam"},
        without=("workers.api.rate_limits",),
        zipped_mb=60,
    ),
    Function(
        name="ingest",
        text="Messages of the submissions queue become jobs or rejections",
        handler="workers.ingest.handler.handler",
        role="ingest",
        memory_mb=512,
        timeout_seconds=30,
        sources=(QueueSource(queue="submissions", batch_size=10),),
    ),
    Function(
        name="webhooks-relay",
        text="Events of jobs that somebody subscribes to, from the table's stream to the queue of events",
        handler="workers.webhooks.relay_handler.handler",
        role="webhooks-relay",
        memory_mb=256,
        timeout_seconds=30,
        sources=(StreamSource(batch_size=100, batching_window_seconds=0, filters=(_EVENTS_OF_JOBS,)),),
    ),
    Function(
        name="webhooks",
        text="Events of jobs become deliveries of webhooks, which are sent",
        handler="workers.webhooks.handler.handler",
        role="webhooks",
        memory_mb=512,
        timeout_seconds=60,
        sources=(QueueSource(queue="events", batch_size=10),),
    ),
    Function(
        name="webhooks-sweep",
        text="Sends deliveries whose time has come, again and again",
        handler="workers.webhooks.handler.sweep_handler",
        role="webhooks-sweep",
        memory_mb=512,
        timeout_seconds=60,
        sources=(ScheduleSource(minutes=1, payload={"task": "sweep"}),),
    ),
    Function(
        name="sweeper",
        text="Whatever is overdue in any region: claims, bells, waits, deadlines, stops",
        handler="workers.sweeper.handler.handler",
        role="sweeper",
        memory_mb=256,
        timeout_seconds=60,
        sources=(ScheduleSource(minutes=1, payload={"task": "sweep"}),),
    ),
    Function(
        name="costs",
        text="Cost reports of windows that are over",
        handler="workers.costs.handler.handler",
        role="costs",
        memory_mb=1024,
        timeout_seconds=300,
        sources=(
            ScheduleSource(minutes=10, payload={"task": "cost_window"}),
            QueueSource(queue="tasks", batch_size=10, maximum_concurrency=2),
        ),
        zipped_mb=50,
    ),
    Function(
        name="metrics",
        text="Scrapes the GPUs of a region's cluster",
        handler="workers.metrics.handler.handler",
        role="metrics",
        memory_mb=512,
        # Less than from one scrape to the next, so that two of a region never overlap and count its samples twice.
        timeout_seconds=55,
        sources=(ScheduleSource(minutes=1, payload={"task": "scrape"}, each_region=True),),
        reaches_clusters=True,
    ),
    Function(
        name="health",
        text="Tells CloudWatch of the fleet's own health, by lines of its embedded metric format",
        handler="workers.metrics.health.handler",
        role="health",
        memory_mb=256,
        timeout_seconds=55,
        sources=(ScheduleSource(minutes=1, payload={"task": "health"}),),
    ),
)


def named(name: str) -> Function:
    """The function of a name. Raises KeyError."""
    return {function.name: function for function in FUNCTIONS}[name]

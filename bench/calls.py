"""Requests per job, counted on the wire from submit to done, and those of an idle day.

200 jobs are submitted, 16 at a time, and run to their end by one dispatcher, one observer and one sweeper: processes as in production, with
default settings. Counted is every request from the first submission until all jobs have succeeded and the wires are quiet, divided by the
number of jobs. What the workers ask once at their start (queue addresses, first lists) is left out; it belongs to no job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from bench import doors
from bench.figures import Figure, Options
from bench.stage import REGION, Fleet, Stage, child, fleet, stage
from bench.wire import WATCH, Wire, aws_operation, kubernetes_operation, wire
from bench.workload import at_a_time, until_succeeded

JOBS = 200
CONCURRENCY = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """A fleet whose every request is counted."""

    fleet: Fleet
    aws: Wire
    kubernetes: Wire

    async def quiet(self, *, seconds: float = 1.0) -> None:
        """Wait until nobody has asked anything new for a while; long polls that go on count as quiet, and so do reads of a stream."""
        before = -1
        while before != (now := self._asked()):
            before = now
            await asyncio.sleep(seconds)

    def _asked(self) -> int:
        aws = self.aws.counts
        return aws.requests.total() - aws.of("streams") + self.kubernetes.counts.requests.total()


@asynccontextmanager
async def counted(place: Stage, *workers: str) -> AsyncIterator[Counted]:
    """A fresh fleet with the named workers as processes, and `api` for what is submitted from here; ready, and the counts at zero."""
    async with AsyncExitStack() as stack:
        aws = await stack.enter_async_context(wire(place.endpoint, aws_operation))
        kubernetes = await stack.enter_async_context(wire(place.cluster, kubernetes_operation))
        made = await stack.enter_async_context(fleet(place, endpoint=await aws.tap("api")))
        for worker in workers:
            environment = made.environment(await aws.tap(worker), GPUFLEET_KUBECONFIG=str(place.kubeconfig(await kubernetes.tap(worker))))
            arguments = ("--region", REGION) if worker in ("dispatcher", "observer") else ()
            await stack.enter_async_context(
                child(f"{made.settings.table}-{worker}", f"workers.{worker}", *arguments, scratch=place.scratch, env=environment)
            )
        found = Counted(fleet=made, aws=aws, kubernetes=kubernetes)
        async with asyncio.timeout(60):
            while not _all_at_work(found, workers):
                await asyncio.sleep(0.1)
        await found.quiet()
        aws.counts.reset()
        kubernetes.counts.reset()
        yield found


def _all_at_work(found: Counted, workers: tuple[str, ...]) -> bool:
    asked = {who for who, _, _ in found.aws.counts.requests}
    watches = sum(count for (_, _, operation), count in found.kubernetes.counts.requests.items() if operation == WATCH)
    return asked >= set(workers) and watches >= 3


async def run(options: Options) -> list[Figure]:
    """All figures of calls."""
    jobs = 50 if options.quick else JOBS
    async with stage() as place:
        return [*await _through_the_api(place, jobs), *await _through_the_queue(place, jobs), await _beside_webhooks(place, jobs)]


async def _through_the_api(place: Stage, jobs: int) -> list[Figure]:
    async with counted(place, "dispatcher", "observer", "sweeper") as found, doors.api(found.fleet) as submit:
        await at_a_time(CONCURRENCY, jobs, lambda _: submit())
        await until_succeeded(found.fleet, jobs)
        await found.quiet()
        how = f"{jobs} jobs, {CONCURRENCY} at a time, {submit.how}"
        return [
            _figure("DynamoDB requests per job (API)", found.aws, "dynamodb", jobs, 5.5, how),
            _figure("SQS requests per job (API)", found.aws, "sqs", jobs, 1.3, how),
            _figure("Kubernetes requests per job, without watches", found.kubernetes, "kubernetes", jobs, 3.3, how, without=WATCH),
        ]


async def _through_the_queue(place: Stage, jobs: int) -> list[Figure]:
    if find_spec("workers.ingest") is None:
        return [Figure(name="SQS requests per job (queue)", value=None, bound=0.6, unit="a job", note="there is no workers.ingest")]
    async with counted(place, "dispatcher", "observer", "sweeper", "ingest") as found:
        await doors.produce(found.fleet, await found.aws.tap("producer"), jobs)
        await until_succeeded(found.fleet, jobs)
        await found.quiet()
        how = f"{jobs} jobs, dropped on the submissions queue 10 at a time, the producer's requests among them"
        return [
            _figure("SQS requests per job (queue)", found.aws, "sqs", jobs, 0.6, how),
            _figure("DynamoDB requests per job (queue)", found.aws, "dynamodb", jobs, 5.5, how),
        ]


async def _beside_webhooks(place: Stage, jobs: int) -> Figure:
    """What a webhook worker reads for jobs of which nobody is to be told: one item for each batch of the stream that has such events.

    The rest of what it asks goes by the clock: checkpoints, sweeps, its beats. Reads of the stream are no requests to the table.
    """
    async with counted(place, "dispatcher", "observer", "sweeper", "webhooks") as found, doors.api(found.fleet) as submit:
        await at_a_time(CONCURRENCY, jobs, lambda _: submit())
        await until_succeeded(found.fleet, jobs)
        await asyncio.sleep(2.0)  # the stream is read once a second
        asked = {operation: count for (who, _, operation), count in found.aws.counts.requests.items() if who == "webhooks"}
        return Figure(
            name="DynamoDB reads per job of the webhook worker, nobody subscribed",
            value=asked.get("BatchGetItem", 0) / jobs,
            bound=0.5,
            unit="a job",
            note=f"{jobs} jobs, {CONCURRENCY} at a time, {submit.how}",
            details={"jobs": jobs, "requests": asked},
        )


def _figure(name: str, wired: Wire, service: str, jobs: int, bound: float, how: str, *, without: str | None = None) -> Figure:
    details: dict[str, Any] = {"jobs": jobs, "requests": wired.counts.by_operation(service)}
    failures = {" ".join(what): count for what, count in wired.counts.failures.items() if what[1] == service}
    if failures:
        details["failures"] = failures
    value = wired.counts.of(service, without=without) / jobs
    return Figure(name=name, value=value, bound=bound, unit="a job", note=how, details=details)

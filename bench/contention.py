"""How often dispatchers meet: eight of them, and 5,000 jobs that are ready when they start.

A lost claim is a conditional UpdateItem that DynamoDB refused; it is counted on the wire, where each costs a write. The eight are processes
as in production, with default settings. The cluster is a stub that answers at once: the faster a dispatcher is done with a job, the
sooner it claims the next one, and the more often they meet.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

from bench.figures import Figure, Options
from bench.filling import fill, heads
from bench.stage import REGION, child, fleet, stage
from bench.stub_cluster import stub_cluster
from bench.wire import aws_operation, wire

DISPATCHERS = 8
JOBS = 5000
REFUSED = "ConditionalCheckFailedException"


async def run(options: Options) -> list[Figure]:
    """The figure of lost claims."""
    jobs = 1000 if options.quick else JOBS
    async with (
        stage() as place,
        stub_cluster() as cluster,
        wire(place.endpoint, aws_operation) as aws,
        fleet(place) as found,
        AsyncExitStack() as workers,
    ):
        await fill(found, heads(jobs), duration=0.0)
        kubeconfig = str(place.kubeconfig(cluster.url))
        began = time.perf_counter()
        for number in range(DISPATCHERS):
            name = f"dispatcher-{number}"
            environment = found.environment(await aws.tap(name), GPUFLEET_KUBECONFIG=kubeconfig)
            arguments = ("workers.dispatcher", "--region", REGION)
            await workers.enter_async_context(child(name, *arguments, scratch=place.scratch, env=environment))
        async with asyncio.timeout(900):
            await cluster.until_released(jobs)
        took = time.perf_counter() - began
        lost = aws.counts.failed("dynamodb", "UpdateItem", REFUSED)
        claims = {who: count for (who, _, operation), count in aws.counts.requests.items() if operation == "UpdateItem"}
        details = {
            "jobs": jobs,
            "created": cluster.created,
            "lost": lost,
            "claims": claims,
            "queries": sum(count for (_, _, operation), count in aws.counts.requests.items() if operation == "Query"),
            "seconds": round(took, 1),
        }
    note = f"{DISPATCHERS} dispatchers (processes), {jobs} jobs ready at their start, a cluster that answers at once"
    return [Figure(name="lost claims", value=lost / jobs, bound=0.05, unit="a job", note=note, details=details)]

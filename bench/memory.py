"""How much memory a dispatcher takes that has 1,000 jobs in flight: the most resident memory (RSS) of its process, from its start on.

A thousand jobs are ready, the dispatcher has a thousand slots, and the cluster takes eight seconds to answer a create. So all are claimed,
read and rendered, and all wait for the cluster at the same time; that they do is counted on the wire. The rest of their way is
within the measurement too: a thousand commits at once, then a thousand releases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import psutil

from bench.figures import Figure, Options
from bench.filling import fill, heads
from bench.stage import REGION, child, fleet, stage
from bench.wire import kubernetes_operation, wire

IN_FLIGHT = 1000
ANSWER_SECONDS = 8.0
"""Below the ten seconds after which a request is given up."""
CREATE, RELEASE = "POST jobs", "PATCH jobs"
_MIB = 1024 * 1024


async def run(_: Options) -> list[Figure]:
    """The figure of memory; a quick run has no shorter one."""
    async with stage() as place, wire(place.cluster, kubernetes_operation) as kubernetes, fleet(place) as found:
        await fill(found, heads(IN_FLIGHT), duration=0.0, concurrency=8)
        slow = {"method": "POST", "path": "/jobs$", "action": "delay", "delay": ANSWER_SECONDS, "times": IN_FLIGHT}
        async with httpx.AsyncClient(base_url=place.cluster) as client:
            (await client.post("/_faults", json=slow)).raise_for_status()
        environment = found.environment(
            place.endpoint,
            GPUFLEET_KUBECONFIG=str(place.kubeconfig(await kubernetes.tap("dispatcher"))),
            GPUFLEET_DISPATCH_SLOTS=str(IN_FLIGHT),
        )
        arguments = ("workers.dispatcher", "--region", REGION)
        async with child("dispatcher", *arguments, scratch=place.scratch, env=environment) as process, sampled(process.pid) as samples:
            async with asyncio.timeout(300):
                while kubernetes.counts.of_operation(RELEASE) < IN_FLIGHT:
                    await asyncio.sleep(0.1)
        in_flight = kubernetes.counts.most_open[CREATE]
        note = f"the most from start to end; {in_flight} creates waited at the same time"
        value = samples[0] / _MIB if in_flight >= IN_FLIGHT * 0.95 else None
        details = {"in_flight": in_flight, "creates": kubernetes.counts.of_operation(CREATE)}
        return [Figure(name="memory of a dispatcher", value=value, bound=150, unit="MiB", note=note, details=details)]


@asynccontextmanager
async def sampled(pid: int) -> AsyncIterator[list[int]]:
    """The most resident memory of a process, looked at twenty times a second until the block ends."""
    most = [0]
    process = psutil.Process(pid)

    async def look() -> None:
        while True:
            most[0] = max(most[0], process.memory_info().rss)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(look())
    try:
        yield most
    finally:
        task.cancel()

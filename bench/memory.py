"""How much memory a dispatcher takes that has 1,000 jobs in flight: the most resident memory (RSS) of its process, from its start on.

A thousand jobs are ready, the dispatcher has a thousand slots, and the cluster answers no create before all thousand wait for one. So all
are claimed, read and rendered, and wait at the same time. The rest of their way is within the measurement too: a thousand commits at once,
then a thousand releases. Megabytes are decimal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil

from bench.figures import Figure, Options
from bench.filling import fill, heads
from bench.stage import REGION, Fleet, Stage, child, fleet, stage
from bench.stub_cluster import StubCluster, stub_cluster

IN_FLIGHT = 1000
_MEGABYTE = 1_000_000


async def run(_: Options) -> list[Figure]:
    """The figure of memory; a quick run has no shorter one."""
    async with stage() as place, stub_cluster(hold=IN_FLIGHT) as cluster, fleet(place) as found:
        idle = await _most(place, found, cluster, slots=1, jobs=0)
        await fill(found, heads(IN_FLIGHT), duration=0.0, concurrency=8)
        most = await _most(place, found, cluster, slots=IN_FLIGHT, jobs=IN_FLIGHT)
    note = f"the most from start to end; {cluster.waiting} creates waited at the same time, on a cluster that answered none before"
    details = {"idle": round(idle, 1), "in_flight": cluster.waiting, "creates": cluster.created}
    return [Figure(name="memory of a dispatcher", value=round(most, 1), bound=150, unit="MB", note=note, details=details)]


async def _most(place: Stage, found: Fleet, cluster: StubCluster, *, slots: int, jobs: int) -> float:
    """The most memory of a dispatcher that works until so many jobs are released; without any, of three idle seconds."""
    environment = found.environment(
        place.endpoint, GPUFLEET_KUBECONFIG=str(place.kubeconfig(cluster.url)), GPUFLEET_DISPATCH_SLOTS=str(slots)
    )
    arguments = ("workers.dispatcher", "--region", REGION)
    async with child(f"dispatcher-{slots}", *arguments, scratch=place.scratch, env=environment) as process, sampled(process.pid) as samples:
        async with asyncio.timeout(300):
            await (cluster.until_released(jobs) if jobs else asyncio.sleep(3))
        return samples[0] / _MEGABYTE


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

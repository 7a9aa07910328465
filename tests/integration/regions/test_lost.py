"""A region's cluster is lost for good: its jobs start elsewhere, but not before somebody says that it is gone.

He says so by giving the region an empty cluster under its name. Until then nobody can know that nothing runs any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.clusters import client
from shared.jobs.model import StopIntent
from shared.jobs.states import State
from tests.integration.region import Region, job
from tests.integration.regions.conftest import EAST, WEST
from tests.integration.regions.test_draining import drain, settled, worked
from workers.local.cluster.cluster import SimulatedCluster
from workers.local.cluster.kubeconfig import write_kubeconfig
from workers.local.cluster.node_shapes import parse_shapes
from workers.local.cluster.server import ClusterServer

pytestmark = pytest.mark.timeout(120)


@asynccontextmanager
async def empty_cluster(lost: Region, folder: Path) -> AsyncIterator[Region]:
    """The region with another cluster, on which nothing is."""
    cluster = SimulatedCluster(
        name=lost.name, region=lost.name, nodes=parse_shapes("2xm5.4xlarge"), clock=time.time, seed=2, namespaces=["gco-jobs"]
    )
    server = ClusterServer(cluster)
    await server.start()
    write_kubeconfig(folder / "empty", {lost.name: server.url})
    try:
        async with client.connect(kubeconfig=folder / "empty", context=lost.name, timeout=3.0) as api:
            found = Region(settings=lost.settings, core=lost.core, aws=lost.aws, server=server, api=api, name=lost.name)
            yield found
            for worker in found.workers:
                await worker.kill()
    finally:
        await server.stop()


async def test_jobs_of_a_lost_cluster_start_elsewhere_when_an_empty_one_stands_for_it(pair, control, tmp_path):
    east, west = pair
    await drain(control, WEST)
    heads = [await east.submit(region="any", manifest=job(f"job-{number}", duration=3600)) for number in range(3)]
    named = await east.submit(manifest=job("named", duration=3600))
    await worked(east)
    await asyncio.gather(*(east.until(head.id, State.RUNNING) for head in [*heads, named]))
    for worker in east.workers:
        await worker.kill()
    await east.server.stop()

    await control.resume(WEST, by="ada", reason=None)
    await drain(control, EAST, interrupt=True, reason="its cluster is lost")
    await worked(west)
    sweeper = await east.sweeper()
    async with asyncio.timeout(30):
        while None in [(await east.head(head.id)).stop for head in [*heads, named]]:
            await asyncio.sleep(0.05)
    marked = [await east.head(head.id) for head in heads]
    assert {(head.state, head.region, head.stop.intent) for head in marked} == {(State.RUNNING, EAST, StopIntent.INTERRUPTION)}
    assert not any(west.starts(head.id) for head in heads)
    await sweeper.kill()

    async with empty_cluster(east, tmp_path) as empty:
        await worked(empty)
        for head in heads:
            async with asyncio.timeout(40):
                while (found := await east.head(head.id)).region != WEST or found.state is not State.RUNNING:
                    await asyncio.sleep(0.05)
            assert (found.execution, found.interruptions, found.attempts) == (2, 1, 0)
        waiting = await east.until(named.id, State.QUEUED)
        assert (waiting.region, waiting.execution) == (EAST, 2)
        assert [len(west.starts(head.id)) for head in heads] == [1, 1, 1]
        assert empty.cluster.started == []

        await control.resume(EAST, by="ada", reason="a new cluster")
        await east.until(named.id, State.RUNNING)
        assert len(empty.starts(named.id)) == 1
        await settled(east, EAST)

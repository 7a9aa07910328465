"""Regions in this process, for tests that break something: real loops and clients, an emulator, a simulated cluster each over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.clusters import client
from shared.clusters.api import KubernetesApi
from shared.costs.sources import region_prices
from shared.jobs.cancellation import Cancellation
from shared.jobs.model import Event, Head
from shared.jobs.states import State
from shared.jobs.submission import JobRequest, Submission
from shared.jobs.sweeping import Sweeper
from shared.policy.gate import Gate
from shared.policy.settings import Policy
from shared.settings import Settings
from shared.store.history import History
from tests.integration.running import Worker, until
from workers.assembly import Core, assemble
from workers.dispatcher.build import build as build_dispatcher
from workers.local.cluster.cluster import SimulatedCluster
from workers.local.cluster.faults import Fault
from workers.local.cluster.kubeconfig import write_kubeconfig
from workers.local.cluster.node_shapes import parse_shapes
from workers.local.cluster.server import ClusterServer
from workers.observer.build import build as build_observer
from workers.observer.usage import UsageAccount, usage_account
from workers.submitting import way_in
from workers.sweeper.build import draining
from workers.sweeper.loop import SweeperLoop

REGION = "us-east-1"
SIMULATION = "simulation.gpufleet.io/"


class NoPrices:
    """Nobody knows a price."""

    async def price(self, region: str, instance_type: str) -> None:
        return None


@dataclass
class Region:
    """What a test needs of the region."""

    settings: Settings
    core: Core
    aws: Any
    server: ClusterServer
    api: KubernetesApi
    name: str = REGION
    workers: list[Worker] = field(default_factory=list)

    @property
    def cluster(self) -> SimulatedCluster:
        return self.server.cluster

    @property
    def submission(self) -> Submission:
        return way_in(self.core, Gate(Policy())).submission

    async def submit(self, *, manifest: dict[str, Any] | None = None, region: str | None = None, **fields: Any) -> Head:
        request = JobRequest(manifest=manifest or job(), region=region or self.name, namespace="gco-jobs", **fields)
        return (await self.submission.submit(request)).head

    async def cancel(self, job_id: str) -> Head:
        return await Cancellation(store=self.core.store, changes=self.core.changes).cancel(job_id, reason="a test", by="tester")

    async def dispatcher(self, name: str = "d1", **options: Any) -> Worker:
        loop = await build_dispatcher(self.core, self.aws.sqs, self.api, region=self.name, owner=name, **options)
        return self._start(loop.run)

    def usage_account(self) -> UsageAccount:
        """An observer's account of usage, at the prices of the settings."""
        prices = region_prices(self.settings, self.aws, REGION, self.core.clock)
        return usage_account(self.core, self.api, prices, region=REGION)

    async def observer(self, usage: UsageAccount | None = None) -> Worker:
        return self._start(build_observer(self.core, self.api, region=self.name, usage=usage).run)

    async def sweeper(self, prices: Any = None) -> Worker:
        core = self.core
        sweeper = Sweeper(
            store=core.store,
            changes=core.changes,
            doorbell=core.doorbell,
            prices=prices or NoPrices(),
            draining=draining(core),
            clock=core.clock,
            lease=self.settings.lease,
        )
        return self._start(SweeperLoop(sweeper=sweeper, regions=[self.name], clock=core.clock, idle_seconds=0.5).run)

    def _start(self, run: Callable[[asyncio.Event], Any]) -> Worker:
        worker = Worker.start(run)
        self.workers.append(worker)
        return worker

    def fault(self, **fields: Any) -> None:
        self.server.faults.add(Fault(**fields))

    async def head(self, job_id: str) -> Head:
        found = await self.core.store.head(job_id)
        assert found is not None
        return found

    async def events(self, job_id: str) -> list[Event]:
        return list(await History(self.core.table).events(job_id))

    async def until(self, job_id: str, *states: State, seconds: float = 20.0) -> Head:
        """Ask until the job is in one of the states."""
        async with asyncio.timeout(seconds):
            while (head := await self.head(job_id)).state not in states:
                await asyncio.sleep(0.05)
        return head

    async def until_true(self, condition: Callable[[], Any], *, seconds: float = 20.0) -> None:
        """Ask until something holds."""
        await until(condition, seconds=seconds)

    def starts(self, job_id: str) -> list[Any]:
        """Pods of the job that have started on the cluster, ever."""
        return [start for start in self.cluster.started if start.annotations.get("gpufleet.io/job-id") == job_id]

    async def objects(self) -> list[dict[str, Any]]:
        return (await self.api.request("GET", "/apis/batch/v1/jobs"))["items"]


def job(name: str = "train", *, backoff_limit: int = 0, **steering: Any) -> dict[str, Any]:
    """A small Job; keyword arguments steer the simulation (`duration`, `exit_code`, `hang`, …)."""
    annotations = {SIMULATION + key.replace("_", "-"): str(value) for key, value in ({"duration": 0.05} | steering).items()}
    container = {"name": "main", "image": "pytorch/pytorch", "resources": {"limits": {"cpu": "10m", "memory": "16Mi"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": backoff_limit,
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


@asynccontextmanager
async def running_region(resources: Any, folder: Path, *, aws: Any = None, **overrides: Any) -> AsyncIterator[Region]:
    """A region without any worker yet; those that a test starts end with it."""
    async with running_regions(resources, folder, (REGION,), aws=aws, **overrides) as (region,):
        yield region


@asynccontextmanager
async def running_regions(
    resources: Any, folder: Path, names: Sequence[str], *, aws: Any = None, **overrides: Any
) -> AsyncIterator[list[Region]]:
    """The same for several regions over one table; workers can ring at all of them."""
    settings = resources.settings.model_copy(update={"regions": tuple(names)} | overrides)
    kubeconfig = folder / "kubeconfig"
    clients = aws or resources.aws
    async with AsyncExitStack() as stack:
        servers = {name: await _serving(stack, name) for name in names}
        write_kubeconfig(kubeconfig, {name: server.url for name, server in servers.items()})
        core = await assemble(settings, clients)
        regions = []
        for name, server in servers.items():
            api = await stack.enter_async_context(client.connect(kubeconfig=kubeconfig, context=name, timeout=3.0))
            regions.append(Region(settings=settings, core=core, aws=clients, server=server, api=api, name=name))
        try:
            yield regions
        finally:
            workers = [worker for region in regions for worker in region.workers]
            for worker in workers:
                worker.asked.set()
            await asyncio.gather(*(worker.kill() for worker in workers))


async def _serving(stack: AsyncExitStack, name: str) -> ClusterServer:
    """A simulated cluster of its own for a region."""
    nodes = parse_shapes("4xg5.12xlarge:spot,2xm5.4xlarge")
    server = ClusterServer(SimulatedCluster(name=name, region=name, nodes=nodes, clock=time.time, seed=1, namespaces=["gco-jobs"]))
    await server.start()
    stack.push_async_callback(server.stop)
    return server

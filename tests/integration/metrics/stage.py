"""A simulated cluster with GPUs of both makes over HTTP, and a scraper of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.clock import SystemClock
from shared.clusters import client, names
from shared.clusters.api import KubernetesApi
from shared.metrics.fetching import Fetch, ProxyFetch
from shared.metrics.scraping import Scraper
from shared.metrics.snapshot import Gpu, Snapshot
from shared.settings import Settings
from workers.local.cluster import ClusterServer, Response, SimulatedCluster, Stream, parse_shapes, serve, write_kubeconfig

REGION = "us-east-1"
NAMESPACE = "gco-jobs"
NODES = "2xg5.12xlarge,1xonprem-mi300x.8gpu,1xm5.large"
JOB_ID = "01a22dbf-a78c-7432-8323-bd802edb4689"
TEXT = {"Content-Type": "text/plain"}


@dataclass
class GpuCluster:
    """What a test needs of it."""

    server: ClusterServer
    kubeconfig: Path
    api: KubernetesApi

    @property
    def cluster(self) -> SimulatedCluster:
        return self.server.cluster

    def scraper(self, fetch: Fetch | None = None, **options: Any) -> Scraper:
        settings = Settings()
        defaults = {"selectors": settings.metrics_exporters, "project_labels": settings.metrics_project_labels}
        return Scraper(self.api, fetch or ProxyFetch(self.api), region=REGION, clock=SystemClock(), **{**defaults, **options})

    async def ready(self) -> Snapshot:
        """The first snapshot in which every exporter answers."""
        return await self.until(lambda found: found.exporters and not found.failures)

    async def until(self, holds: Callable[[Snapshot], Any], *, seconds: float = 15.0) -> Snapshot:
        scraper = self.scraper()
        async with asyncio.timeout(seconds):
            while not holds(found := await scraper.scrape()):
                await asyncio.sleep(0.05)
        return found

    async def run(self, name: str, gpus: int, resource: str = "nvidia.com/gpu", *, namespace: str = NAMESPACE, **labels: str) -> None:
        """A Job with one pod that runs until it is deleted."""
        container = {"name": "main", "image": "busybox:1", "resources": {"limits": {resource: str(gpus)}}}
        pod = {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}], "containers": [container]}
        template = {"metadata": {"labels": labels, "annotations": {"simulation.gpufleet.io/hang": "true"}}, "spec": pod}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}
        await self.api.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body=body)

    async def run_ours(self, name: str, gpus: int, resource: str = "nvidia.com/gpu", *, job_id: str = JOB_ID, **labels: str) -> None:
        """The same as the fleet labels its own."""
        ours = {names.MANAGED: "true", names.JOB_ID: job_id, names.EXECUTION: "1"}
        await self.run(f"{name}-{job_id.replace('-', '')[-12:]}-1", gpus, resource, **ours, **labels)

    async def end(self, name: str, *, namespace: str = NAMESPACE) -> None:
        await self.api.request(
            "DELETE", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}", query={"propagationPolicy": "Background"}, body={}
        )

    def instead(self, node: str, answer: Callable[[], Response | Stream]) -> None:
        """What the exporter of a node says from now on."""
        assert self.cluster.exporters is not None
        self.cluster.exporters.answers[node] = answer


class Flood(Stream):
    """A text of so many bytes; no more than a piece of it is ever in memory."""

    def __init__(self, size: int) -> None:
        super().__init__(TEXT)
        self.left = size

    def take(self) -> list[bytes]:
        piece = min(self.left, 1024 * 1024)
        self.left -= piece
        if not piece:
            self.close()
            return []
        return [b"x" * piece]


@asynccontextmanager
async def gpu_cluster(folder: Path, *, nodes: str = NODES) -> AsyncIterator[GpuCluster]:
    cluster = SimulatedCluster(
        name=REGION,
        region=REGION,
        nodes=parse_shapes(nodes),
        clock=time.time,
        seed=5,
        namespaces=(NAMESPACE, "others"),
        exporters=True,
    )
    async with serve([cluster]) as (server,):
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, {REGION: server.url})
        async with client.connect(kubeconfig=kubeconfig, context=REGION) as api:
            yield GpuCluster(server=server, kubeconfig=kubeconfig, api=api)


def of_node(snapshot: Snapshot, node: str) -> list[Gpu]:
    return [gpu for gpu in snapshot.gpus if gpu.device.node == node]

"""A fleet that the released version has made, with programs of both versions, over one emulator and one simulated cluster."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.aws import Aws
from shared.jobs.model import Head
from shared.settings import Settings
from shared.store.jobs import Jobs
from shared.store.keys import Layout
from shared.store.objects import S3Objects
from shared.store.specifications import Specifications
from shared.store.table import Table
from tests.upgrade.programs import Fleet, MissingError, unpack
from workers.local.cluster.cluster import SimulatedCluster
from workers.local.cluster.kubeconfig import write_kubeconfig
from workers.local.cluster.node_shapes import parse_shapes
from workers.local.cluster.server import ClusterServer

REGION = "us-east-1"


@pytest.fixture(scope="session")
def released_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code of the last released version. Skips where this clone has not got it."""
    try:
        return unpack(tmp_path_factory.mktemp("released"))
    except MissingError as missing:
        pytest.skip(str(missing))


@dataclass
class Stage:
    """The fleet, its cluster, and a store that looks at its table with the code of this checkout."""

    fleet: Fleet
    cluster: SimulatedCluster
    store: Jobs
    aws: Aws

    async def heads(self, job_ids: list[str]) -> list[Head]:
        found = await self.store.heads(job_ids)
        return [found[job_id] for job_id in job_ids]


@pytest.fixture
async def stage(aws: Aws, aws_endpoint: str, fleet_settings: Settings, released_code: Path, tmp_path: Path) -> AsyncIterator[Stage]:
    """Table, bucket and queues as the released version makes them; no program runs yet."""
    settings = fleet_settings.model_copy(update={"regions": (REGION,)})
    cluster = SimulatedCluster(
        name=REGION, region=REGION, nodes=parse_shapes("4xm5.4xlarge"), clock=time.time, seed=1, namespaces=["gco-jobs"]
    )
    server = ClusterServer(cluster)
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, {REGION: server.url})
    fleet = Fleet(settings, aws_endpoint, tmp_path, kubeconfig, released_code)
    table = Table(aws.dynamodb, settings.table)
    store = Jobs(table, Specifications(table, S3Objects(aws.s3, settings.bucket)), Layout())
    try:
        await fleet.command("old", "bootstrap")
        yield Stage(fleet, cluster, store, aws)
    finally:
        await fleet.close()
        await server.stop()

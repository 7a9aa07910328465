"""A simulated cluster behind HTTP, and the fleet's real client on it."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.clusters.api import KubernetesApi
from shared.clusters.client import connect
from shared.clusters.cluster import KubernetesCluster
from tests.integration.clusters.builders import NAMESPACE, Counting
from workers.local.cluster import ClusterServer, NodeShape, SimulatedCluster, serve, write_kubeconfig

REGION = "eu-west-1"


@pytest.fixture
async def server() -> AsyncIterator[ClusterServer]:
    nodes = (
        NodeShape(name="cpu-1"),
        NodeShape.of_type("g5.12xlarge", name="gpu-1"),
        NodeShape.of_type("g5.xlarge", name="spot-1", capacity_type="spot"),
    )
    simulated = SimulatedCluster(name="test", region=REGION, nodes=nodes, clock=time.time, seed=7, namespaces=(NAMESPACE,))
    async with serve([simulated]) as servers:
        yield servers[0]


@pytest.fixture
async def counting(server: ClusterServer, tmp_path: Path) -> AsyncIterator[Counting]:
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, {"us-east-1": "http://127.0.0.1:1", REGION: server.url})
    async with connect(kubeconfig=kubeconfig, context=REGION) as api:
        yield Counting(api._transport)


@pytest.fixture
def api(counting: Counting) -> KubernetesApi:
    return KubernetesApi(counting)


@pytest.fixture
def cluster(api: KubernetesApi) -> KubernetesCluster:
    return KubernetesCluster(api)

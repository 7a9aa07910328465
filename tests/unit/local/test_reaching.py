"""Real clusters are asked once whether they answer."""

import socket
import time
from pathlib import Path

import yaml

from workers.local.cluster import SimulatedCluster, serve, write_kubeconfig
from workers.local.cluster.faults import Fault
from workers.local.ports import LOOPBACK, free_ports
from workers.local.reaching import Found, look
from workers.local.up import warnings_of


async def test_each_cluster_that_does_not_answer_is_told_within_bounds(tmp_path: Path) -> None:
    (closed,) = free_ports(1)
    path = tmp_path / "kubeconfig"
    cluster = SimulatedCluster(name="us-east-1", region="us-east-1", nodes=[], clock=time.time, seed=1, namespaces=["gco-jobs"])
    # The kernel takes connections to a server that never accepts one.
    with socket.create_server((LOOPBACK, 0)) as silent:
        async with serve([cluster]) as (server,):
            port = silent.getsockname()[1]
            urls = {"us-east-1": server.url, "eu-west-1": f"http://{LOOPBACK}:{closed}", "us-west-2": f"http://{LOOPBACK}:{port}"}
            write_kubeconfig(path, urls)

            found = await look(path, list(urls), namespaces=["gco-jobs"], seconds=1.0)

            assert found["us-east-1"] == Found()
            assert str(closed) in str(found["eu-west-1"].fault)
            assert found["us-west-2"] == Found(fault="no answer within 1 s")
            assert [line.split(",")[0] for line in warnings_of(found)] == [
                "WARNING: the cluster of eu-west-1 does not answer",
                "WARNING: the cluster of us-west-2 does not answer",
            ]


async def test_namespaces_that_a_cluster_lacks_are_told(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    regions = {"us-east-1": ["gco-jobs"], "eu-west-1": ["gco-jobs", "team-b", "team-c"]}
    clusters = [
        SimulatedCluster(name=region, region=region, nodes=[], clock=time.time, seed=1, namespaces=there)
        for region, there in regions.items()
    ]
    async with serve(clusters) as servers:
        write_kubeconfig(path, {server.cluster.region: server.url for server in servers})

        found = await look(path, list(regions), namespaces=["team-b", "gco-jobs", "team-c"])

    assert found == {"us-east-1": Found(missing=("team-b", "team-c")), "eu-west-1": Found()}
    assert list(warnings_of(found)) == [
        "WARNING: the cluster of us-east-1 lacks namespaces that the policy allows, so jobs in them fail there: team-b, team-c"
    ]


async def test_a_namespace_that_may_not_be_read_is_not_said_to_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    cluster = SimulatedCluster(name="us-east-1", region="us-east-1", nodes=[], clock=time.time, seed=1, namespaces=["gco-jobs"])
    async with serve([cluster]) as (server,):
        server.faults.add(Fault(path=r"/namespaces/team-b$", status=403))
        write_kubeconfig(path, {"us-east-1": server.url})

        assert await look(path, ["us-east-1"], namespaces=["gco-jobs", "team-b"]) == {"us-east-1": Found()}


async def test_a_cluster_whose_user_can_not_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, {"us-east-1": "http://127.0.0.1:1"})
    loaded = yaml.safe_load(path.read_text())
    loaded["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"}}
    path.write_text(yaml.safe_dump(loaded))

    assert (await look(path, ["us-east-1"], namespaces=["gco-jobs"]))["us-east-1"].fault

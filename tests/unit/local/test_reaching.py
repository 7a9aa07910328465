"""Real clusters are asked once whether they answer."""

import socket
import time
from pathlib import Path

import yaml

from workers.local.cluster import SimulatedCluster, serve, write_kubeconfig
from workers.local.ports import LOOPBACK, free_ports
from workers.local.reaching import unreachable


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

            found = await unreachable(path, list(urls), namespace="gco-jobs", seconds=1.0)

            assert list(found) == ["eu-west-1", "us-west-2"]
            assert str(closed) in found["eu-west-1"]
            assert found["us-west-2"] == "no answer within 1 s"


async def test_a_cluster_whose_user_can_not_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, {"us-east-1": "http://127.0.0.1:1"})
    loaded = yaml.safe_load(path.read_text())
    loaded["users"][0]["user"] = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"}}
    path.write_text(yaml.safe_dump(loaded))

    found = await unreachable(path, ["us-east-1"], namespace="gco-jobs")

    assert "us-east-1" in found

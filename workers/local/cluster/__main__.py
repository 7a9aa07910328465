"""`python -m workers.local.cluster`: simulated clusters as a program of their own, until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import yaml

from workers.local.cluster.access import Access, AuditFile, rules_of
from workers.local.cluster.cluster import SimulatedCluster
from workers.local.cluster.kinds import TRAIN_JOB
from workers.local.cluster.kubeconfig import write_kubeconfig
from workers.local.cluster.node_shapes import parse_shapes
from workers.local.cluster.server import serve


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers.local.cluster", description=__doc__)
    parser.add_argument("--region", action="append", required=True, help="a cluster for this region; may be given again")
    parser.add_argument("--port", action="append", type=int, default=[], help="the port of the region in the same place; 0: a free one")
    parser.add_argument("--name", help="listen on all addresses, for others in a network of containers, who know this program by that name")
    parser.add_argument("--nodes", default="2xg5.12xlarge:spot,2xm5.4xlarge", help="of each cluster, such as 4xg5.xlarge:spot,m5.large")
    parser.add_argument("--namespace", action="append", default=[], help="a namespace that is there from the start; may be given again")
    parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig here, with one context for each region")
    parser.add_argument("--exporters", action="store_true", help="put a pod that tells of GPUs on every node that has some")
    parser.add_argument("--queue", action="append", help="a local queue of Kueue, which admits all at once; may be given again")
    parser.add_argument("--rbac", type=Path, help="hold callers to the roles and bindings of this file; their tokens are their names")
    parser.add_argument("--audit", type=Path, help="append a line of JSON here for all that is asked for the first time")
    parser.add_argument("--seed", type=int, default=0, help="decides uids and the suffixes of names")
    return parser.parse_args(argv)


async def run(arguments: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM."""
    shapes = parse_shapes(arguments.nodes)
    clusters = [
        SimulatedCluster(
            name=region,
            region=region,
            nodes=shapes,
            clock=time.time,
            seed=arguments.seed,
            namespaces=arguments.namespace,
            extra_kinds=(TRAIN_JOB,),
            exporters=arguments.exporters,
            queues={name: {} for name in arguments.queue} if arguments.queue else None,
        )
        for region in arguments.region
    ]
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    access = _access(arguments.rbac, arguments.audit)
    async with serve(clusters, ports=arguments.port, access=access, name=arguments.name) as servers:
        urls = {server.cluster.region: server.url for server in servers}
        if arguments.kubeconfig is not None:
            write_kubeconfig(arguments.kubeconfig, urls)
        for region, url in urls.items():
            sys.stdout.write(f"{region} {url}\n")
        sys.stdout.flush()
        await stopped.wait()


def _access(rbac: Path | None, audit: Path | None) -> Access | None:
    if rbac is None and audit is None:
        return None
    rules = rules_of(one for one in yaml.safe_load_all(rbac.read_text()) if one) if rbac is not None else None
    return Access(rules, tell=AuditFile(audit).tell) if audit is not None else Access(rules)


def main(argv: Sequence[str] | None = None) -> None:
    """The program."""
    asyncio.run(run(_arguments(argv)))


if __name__ == "__main__":
    main()

"""Where the measurements play: the AWS emulator and a cluster as processes of their own, and fleets on them that start from nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from shared.aws import Aws, connect
from shared.ids import RandomIds
from shared.settings import Settings
from shared.store.bootstrap import bootstrap
from workers.assembly import Core, assemble
from workers.local.cluster import write_kubeconfig

REGION = "us-east-1"
NAMESPACE = "gco-jobs"
NODES = "20xm7i.48xlarge"
"""Room for 2,200 pods at the same time: no job waits for a machine, since it's not the cluster that is measured."""
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """The addresses of the emulator and of the cluster, and a directory for files."""

    endpoint: str
    cluster: str
    scratch: Path

    def kubeconfig(self, url: str) -> Path:
        """A kubeconfig whose one context leads to an address: the cluster's, or a tap before it."""
        path = self.scratch / f"kubeconfig-{url.rpartition(':')[2]}"
        write_kubeconfig(path, {REGION: url})
        return path


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """A table, queues and a bucket that nothing else touches, and the core over them."""

    settings: Settings
    aws: Aws
    """Clients that nobody counts, for what the measurement itself wants to know."""
    clients: Aws
    """Clients through a tap, where there is one."""
    core: Core

    def environment(self, endpoint: str, **more: str) -> dict[str, str]:
        """What a worker of this fleet needs in its environment; every setting that isn't named is the default."""
        return aws_environment(endpoint) | {
            "GPUFLEET_REGIONS": REGION,
            "GPUFLEET_TABLE": self.settings.table,
            "GPUFLEET_BUCKET": self.settings.bucket,
            "GPUFLEET_QUEUE_PREFIX": self.settings.queue_prefix,
            "GPUFLEET_SPOT_PRICES_FILE": os.devnull,
            **more,
        }


def aws_environment(endpoint: str) -> dict[str, str]:
    """What makes AWS clients speak to an emulator. It takes any credentials."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """The environment of this process with some values set, for what reads it at its start."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@asynccontextmanager
async def child(name: str, *arguments: str, scratch: Path, env: Mapping[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python module as a process, until the block ends. Raises RuntimeError with the end of its log when it failed in between."""
    path = scratch / f"{name}.log"
    with path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *arguments, env=os.environ | env | {"PYTHONPATH": str(_ROOT)}, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        if process.returncode is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}:\n{path.read_text(errors='replace')[-3000:]}")
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def stage(*, nodes: str = NODES, exporters: bool = False) -> AsyncIterator[Stage]:
    """The emulator and a simulated cluster of one region, with or without pods that tell of its GPUs."""
    aws_port, cluster_port = free_ports(2)
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as directory:
        scratch = Path(directory)
        emulator = {
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(aws_port),
            "LOG_LEVEL": "ERROR",
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "TMPDIR": directory,
        }
        cluster = ["workers.local.cluster", "--region", REGION, "--port", str(cluster_port), "--nodes", nodes, "--namespace", NAMESPACE]
        cluster += ["--exporters"] if exporters else []
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(child("emulator", "ministack", scratch=scratch, env=emulator))
            await stack.enter_async_context(child("cluster", *cluster, scratch=scratch, env={}))
            found = Stage(endpoint=f"http://127.0.0.1:{aws_port}", cluster=f"http://127.0.0.1:{cluster_port}", scratch=scratch)
            await answers(f"{found.endpoint}/_ministack/health")
            await answers(f"{found.cluster}/readyz")
            yield found


@asynccontextmanager
async def fleet(place: Stage, *, endpoint: str | None = None, **settings: object) -> AsyncIterator[Fleet]:
    """A fresh fleet; its table goes at the end, since the emulator keeps everything in memory. `endpoint`: a tap for its clients."""
    name = f"bench-{RandomIds().nonce()}"
    made = Settings(table=name, bucket=name, queue_prefix=name, control_region=REGION, regions=(REGION,), **settings)
    with environment(aws_environment(place.endpoint)):
        direct = connect(REGION, "dynamodb", "sqs", "s3")
        async with direct as aws:
            await bootstrap(aws, made)
            with environment(aws_environment(endpoint or place.endpoint)):
                tapped = connect(REGION, "dynamodb", "dynamodbstreams", "sqs", "s3", "secretsmanager")
                async with tapped as clients:
                    yield Fleet(settings=made, aws=aws, clients=clients, core=await assemble(made, clients))
            await aws.dynamodb.delete_table(TableName=name)


async def answers(url: str) -> None:
    """Wait until a server answers."""
    async with httpx.AsyncClient() as client, asyncio.timeout(60):
        while True:
            try:
                if (await client.get(url)).status_code == httpx.codes.OK:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.05)


def free_ports(count: int) -> list[int]:
    """Ports on the loopback interface that nobody has."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()

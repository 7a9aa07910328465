"""How many submissions one API process takes in a second, as a share of a bare endpoint that makes the same two AWS calls (`bare_api`).

Both are uvicorn in a process of its own, as they would be run: ours with its whole middleware, log lines and answer. AWS is a stub in a
third process (`stub_aws`) that answers at once, since the emulator would limit both and hide our cost. The same client asks both in turns,
in short rounds whose order changes; the figure is the median of the rounds' ratios.

Throughput is that of sixteen connections, over which our bells are joined (`shared.queues.doorbell`), which is ours to gain. The stricter
figure is over one connection: every submission waits for a bell of its own there, so both make exactly the same calls. It compares the
processor time that the two servers take for a submission, since over one connection most of the clock's is the client's and the stub's.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import psutil

from bench.figures import Figure, Options
from bench.stage import REGION, answers, aws_environment, child, free_ports
from bench.workload import at_a_time, submission

SUBMISSIONS = 200
ROUNDS = 31
CONNECTIONS = 16
BOUND = 0.6
_PATH = "/api/v1/queue/jobs"
_BODY = json.dumps(submission()).encode()


class _Server:
    """One of the two, and what it has taken."""

    def __init__(self, url: str, process: psutil.Process) -> None:
        self._url = url + _PATH
        self._process = process
        self.speeds: list[float] = []
        self.busy: list[float] = []

    async def round(self, client: aiohttp.ClientSession, *, connections: int) -> None:
        """One round over so many connections."""

        async def submit(_: int) -> None:
            async with client.post(self._url, data=_BODY, headers={"Content-Type": "application/json"}) as answer:
                told = await answer.read()
                if answer.status != 201:
                    raise RuntimeError(f"{self._url}: {answer.status} {told[:500]!r}")

        used, began = self._used(), time.perf_counter()
        await at_a_time(connections, SUBMISSIONS, submit)
        self.speeds.append(SUBMISSIONS / (time.perf_counter() - began))
        self.busy.append((self._used() - used) / SUBMISSIONS * 1000)

    def _used(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


async def run(options: Options) -> list[Figure]:
    """The figures of submitting."""
    rounds = 7 if options.quick else ROUNDS
    found: dict[int, dict[str, _Server]] = {}
    async with _servers() as processes:
        for connections in (1, CONNECTIONS):
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as client:
                servers = found[connections] = {name: _Server(*which) for name, which in processes.items()}
                for number in range(rounds + 1):
                    for name in sorted(servers, reverse=bool(number % 2)):
                        await servers[name].round(client, connections=connections)
                for one in servers.values():
                    del one.speeds[0], one.busy[0]  # they fill the caches
    return [_throughput(found[CONNECTIONS]), _processor_time(found[1])]


@asynccontextmanager
async def _servers() -> AsyncIterator[dict[str, tuple[str, psutil.Process]]]:
    """The API and the bare endpoint over one stub: their addresses and processes."""
    aws_port, api_port, bare_port = free_ports(3)
    endpoint = f"http://127.0.0.1:{aws_port}"
    settings = {"GPUFLEET_REGIONS": REGION, "GPUFLEET_CONTROL_REGION": REGION, "GPUFLEET_API_PORT": str(api_port)}
    env = aws_environment(endpoint) | settings
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as directory:
        async with AsyncExitStack() as stack:

            async def start(name: str, port: int, *arguments: str) -> tuple[str, psutil.Process]:
                process = await stack.enter_async_context(child(name, *arguments, scratch=Path(directory), env=env))
                url = f"http://127.0.0.1:{port}"
                await answers(f"{url}/healthz")
                return url, psutil.Process(process.pid)

            await start("aws", aws_port, "bench.stub_aws", str(aws_port))
            yield {
                "api": await start("api", api_port, "workers.api"),
                "bare": await start("bare", bare_port, "bench.bare_api", str(bare_port)),
            }


def _throughput(servers: dict[str, _Server]) -> Figure:
    return _figure(
        "throughput of submissions",
        [api / bare for api, bare in zip(servers["api"].speeds, servers["bare"].speeds, strict=True)],
        servers,
        note=f"median of rounds of {SUBMISSIONS} over {CONNECTIONS} connections, one API process, AWS a stub that answers at once",
    )


def _processor_time(servers: dict[str, _Server]) -> Figure:
    return _figure(
        "processor time of a bare endpoint",
        [bare / api for api, bare in zip(servers["api"].busy, servers["bare"].busy, strict=True)],
        servers,
        note=f"median of rounds of {SUBMISSIONS} over one connection, each submission with a bell of its own",
        unit="of a submission's",
    )


def _figure(name: str, ratios: list[float], servers: dict[str, _Server], *, note: str, unit: str = "of a bare endpoint's") -> Figure:
    details = {
        "ratios": [round(ratio, 3) for ratio in ratios],
        "submissions_per_second": {name: round(statistics.median(one.speeds), 1) for name, one in servers.items()},
        "processor_milliseconds": {name: round(statistics.median(one.busy), 2) for name, one in servers.items()},
    }
    return Figure(name=name, value=statistics.median(ratios), bound=BOUND, unit=unit, at_least=True, note=note, details=details)

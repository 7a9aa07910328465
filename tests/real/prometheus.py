"""A Prometheus of this machine that scrapes what a test serves, as fast as it can."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.real.conftest import free_port, listening

_CONFIGURATION = """
global: {scrape_interval: 100ms, scrape_timeout: 100ms}
scrape_configs:
  - job_name: gpufleet
    honor_labels: true
    static_configs: [{targets: ["127.0.0.1:%d"]}]
"""


def executable() -> str:
    """Debian's prometheus; `run.sh` says where it is."""
    found = os.environ.get("GPUFLEET_PROMETHEUS") or shutil.which("prometheus")
    if found is None:
        pytest.fail("there is no prometheus: run it by `make test-real`, which fetches Debian's package")
    return found


@asynccontextmanager
async def served_once_each(texts: Sequence[str]) -> AsyncIterator[int]:
    """The port of an exporter that gives each request the next of some texts, and nothing after the last."""
    left: Iterator[str] = iter(texts)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            body = next(left, "").encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def prometheus(folder: Path, *, scrapes: int) -> AsyncIterator[str]:
    """The address of a Prometheus that scrapes a port of the loopback interface."""
    configuration = folder / "prometheus.yml"
    configuration.write_text(_CONFIGURATION % scrapes)
    port = free_port()
    command = [
        executable(),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with listening(command, port) as url:
        yield url


async def until_known(url: str, query: str, value: float) -> None:
    """Ask until an instant query gives this value."""
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client, asyncio.timeout(60):
        while True:
            answer = await client.post("/api/v1/query", data={"query": query})
            result = answer.json().get("data", {}).get("result", []) if answer.status_code == httpx.codes.OK else []
            if [float(one["value"][1]) for one in result] == [value]:
                return
            await asyncio.sleep(0.1)

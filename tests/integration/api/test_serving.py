"""The server as it is run: whose word is taken for where a client is, and what it tells callers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import pytest
from structlog.testing import capture_logs

from workers.api.server import ServerSettings, serve_core
from workers.local.ports import free_ports


@asynccontextmanager
async def served(core, **settings):
    """A client of a server on a real port."""
    (port,) = free_ports(1)
    stop = asyncio.Event()
    task = asyncio.create_task(serve_core(core, ServerSettings(port=port, **settings), stop))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client, asyncio.timeout(20):
            while True:
                try:
                    await client.get("/healthz")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.02)
            yield client
    finally:
        stop.set()
        await task


@pytest.mark.parametrize(
    ("trusted", "client_is"), [(None, "127.0.0.1"), ("10.0.0.0/8", "127.0.0.1"), ("127.0.0.1,10.0.0.0/8", "192.0.2.9")]
)
async def test_only_a_trusted_proxy_says_who_the_client_is(shared_core, trusted, client_is):
    async with served(shared_core, trusted_proxies=trusted) as client:
        with capture_logs() as lines:
            await client.get("/healthz", headers={"X-Forwarded-For": "203.0.113.5, 192.0.2.9, 10.1.1.1"})

    assert [line["client"] for line in lines] == [client_is]


async def test_the_local_administrator_is_told_a_limit_and_pages_of_others_are_refused(shared_core):
    async with served(shared_core) as client:
        answer = await client.get("/api/v1/queue/jobs/x")
        foreign = await client.get("/healthz", headers={"Host": "evil.example"})

    assert answer.headers["ratelimit-policy"] == '"caller";q=10000;w=1'
    assert foreign.status_code == 421
    assert foreign.json()["request_id"] == foreign.headers["x-request-id"]


async def test_with_an_identity_source_any_host_is_answered(shared_core):
    core = replace(shared_core, settings=shared_core.settings.model_copy(update={"identity": ("keys",)}))
    async with served(core) as client:
        assert (await client.get("/healthz", headers={"Host": "fleet.example"})).status_code == 200
        assert (await client.get("/", headers={"Host": "fleet.example"})).status_code == 401


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x"])
async def test_a_request_whose_head_does_not_come_to_its_end_is_not_waited_for_for_ever(shared_core, monkeypatch, sent):
    monkeypatch.setattr("workers.api.server.HEAD_SECONDS", 0.2)
    async with served(shared_core) as client, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()


async def test_a_length_beyond_all_bounds_is_answered_at_once(shared_core):
    async with served(shared_core) as client, asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(b"POST /api/v1/queue/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n{")
        answered = await reader.readline()
        writer.close()

    assert b"413" in answered

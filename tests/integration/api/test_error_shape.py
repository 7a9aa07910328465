"""Whatever goes wrong is told in one shape, with the request's id, and leaves one line in the log."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager

import httpx
import pytest
import uvicorn
from structlog.testing import capture_logs

from tests.integration.api.conftest import serving, submission
from workers.api.app import create_app

JOBS = "/api/v1/queue/jobs"


def has_the_shape(answer, status):
    body = answer.json()
    assert answer.status_code == status, answer.text
    assert body.keys() == {"detail", "request_id"}
    assert re.fullmatch("[0-9a-f]{32}", body["request_id"])
    assert answer.headers.get_list("x-request-id") == [body["request_id"]]
    assert answer.headers["content-type"] == "application/json"
    return body["detail"]


async def test_everything_that_is_no_success_has_one_shape(shared_client, shared_core, monkeypatch):
    async def broken(*_):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(shared_core.counters, "by_region", broken)

    assert "nothing at /nowhere" in has_the_shape(await shared_client.get("/nowhere"), 404)
    assert "nothing at /docs/files/x" in has_the_shape(await shared_client.get("/docs/files/x"), 404)
    assert "Job 'x' not found" in has_the_shape(await shared_client.get(f"{JOBS}/x"), 404)
    assert has_the_shape(await shared_client.post(JOBS, json={}), 422)[0]["pointer"] == "/manifest"
    assert has_the_shape(await shared_client.post(JOBS, content=b"{"), 422)
    assert has_the_shape(await shared_client.get(JOBS, params={"limit": 0, "region": "x"}), 422)
    assert "exceeds maximum size" in has_the_shape(await shared_client.post(JOBS, content=b"x" * 7_000_000), 413)
    assert "Internal server error" in has_the_shape(await shared_client.get("/api/v1/queue/stats"), 500)
    assert "reaches no cluster" in has_the_shape(await shared_client.post("/api/v1/queue/poll"), 503)
    forbidden = submission(namespace="kube-system")
    assert "not allowed" in has_the_shape(await shared_client.post(JOBS, json=forbidden), 403)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", JOBS, "GET, HEAD, POST"),
        ("OPTIONS", JOBS, "GET, HEAD, POST"),
        ("PATCH", f"{JOBS}/x", "DELETE, GET, HEAD"),
        ("GET", "/api/v1/queue/poll", "POST"),
        ("HEAD", "/api/v1/queue/poll", "POST"),
        ("BREW", "/healthz", "GET, HEAD"),
        ("DELETE", "/fleet/v1/keys", "GET, HEAD, POST"),
        ("POST", "/docs", "GET, HEAD"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ],
)
async def test_a_method_that_a_path_does_not_take(shared_client, method, path, allowed):
    answer = await shared_client.request(method, path)

    assert answer.headers["allow"] == allowed
    if method == "HEAD":
        assert (answer.status_code, answer.content) == (405, b"")
    else:
        assert has_the_shape(answer, 405) == f"Method Not Allowed: {path} takes {allowed}"


@pytest.mark.parametrize("path", ["/", "/healthz", JOBS, f"{JOBS}/x", "/docs", "/docs/files/swagger-ui.css", "/openapi.json", "/nowhere"])
async def test_head_is_get_without_its_body(shared_client, path):
    got, head = await shared_client.get(path), await shared_client.head(path)

    own = {"x-request-id", "date"}
    told = {name: value for name, value in got.headers.items() if name not in own and (name != "content-length" or got.status_code == 200)}
    assert head.content == b""
    assert head.status_code == got.status_code
    if path != JOBS:  # its body tells the time
        assert told.items() <= head.headers.items()


@asynccontextmanager
async def listening(core):
    """The API on a real port."""
    server = uvicorn.Server(uvicorn.Config(create_app(core), port=0, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def until(condition, seconds=10.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_head_of_a_log_that_is_followed_does_not_wait_for_its_end(shared_core):
    async with listening(shared_core) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
        job = (await client.post(JOBS, json=submission())).json()["job"]
        head = await client.head(f"/fleet/v1/jobs/{job['job_id']}/logs", params={"follow": True})
        again = await client.get("/healthz")

    assert (head.status_code, head.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert again.status_code == 200


async def test_a_client_that_leaves_is_told_of_as_such(shared_core):
    async with listening(shared_core) as port:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            job = (await client.post(JOBS, json=submission())).json()["job"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with capture_logs() as lines:
            path = f"/fleet/v1/jobs/{job['job_id']}/logs?follow=true"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
            await until(lambda: lines)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        with capture_logs() as others:
            writer.write(f"POST {JOBS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{{".encode())
            await writer.drain()
            writer.close()
            await until(lambda: others)

    assert [(line["event"], line["status"]) for line in lines] == [("client left", 200)]
    assert [(line["event"], line["status"], line["log_level"]) for line in others] == [("client left", 499, "info")]


async def test_a_client_that_gave_up_on_a_slow_answer_is_told_of_as_such(shared_core, monkeypatch):
    monkeypatch.setattr("workers.api.requests._SLOW_SECONDS", 0.0)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_):
        asked.set()
        await go_on.wait()
        return {}

    monkeypatch.setattr(shared_core.counters, "by_region", slow)
    async with listening(shared_core) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        with capture_logs() as lines:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /api/v1/queue/stats HTTP/1.1\r\nHost: x\r\n\r\n")
            await asked.wait()
            writer.close()
            await client.get("/healthz")  # answered after the server has seen that the other left
            go_on.set()
            await client.get("/api/v1/queue/stats")
            await until(lambda: len(lines) == 3)

    assert [(line["event"], line["path"]) for line in lines] == [
        ("request", "/healthz"),
        ("client left", "/api/v1/queue/stats"),
        ("request", "/api/v1/queue/stats"),
    ]


async def test_one_line_tells_of_a_request(shared_core):
    async with serving(shared_core) as client:
        with capture_logs() as lines:
            answer = await client.get(f"{JOBS}/x", params={"a": "b"})

    (line,) = lines
    assert isinstance(line.pop("milliseconds"), float)
    assert line == {
        "event": "request",
        "log_level": "info",
        "method": "GET",
        "path": f"{JOBS}/x",
        "route": f"{JOBS}/{{job_id}}",
        "caller": "local",
        "client": "127.0.0.1",
        "status": 422,
    }
    assert answer.status_code == 422

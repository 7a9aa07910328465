"""The limit of a body, in bytes that really came."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.error
import urllib.request

import pytest
import uvicorn

from workers.api.limits import BodyLimit


async def call(limit, *chunks, headers=()):
    """Send chunks through the limit; returns what the app got (None: it was not called) and the status."""
    got, sent = [], []
    messages = [{"type": "http.request", "body": chunk, "more_body": number < len(chunks) - 1} for number, chunk in enumerate(chunks)]
    pulled = []

    async def receive():
        if messages:
            pulled.append(messages[0])
            return messages.pop(0)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            body += message["body"]
        got.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})

    await BodyLimit(app, limit=limit)({"type": "http", "headers": list(headers)}, receive, send)
    return (got[0] if got else None), sent[0]["status"], len(pulled)


@pytest.mark.parametrize("chunks", [(b"",), (b"12345",), (b"12", b"", b"345"), (b"1", b"2", b"3", b"4", b"5")])
async def test_a_body_up_to_the_limit_comes_through_whole(chunks):
    assert (await call(5, *chunks))[:2] == (b"".join(chunks), 200)


@pytest.mark.parametrize("chunks", [(b"123456",), (b"123", b"456"), (b"12345", b"6", b"7" * 100)])
async def test_a_body_over_the_limit_never_reaches_the_app(chunks):
    assert (await call(5, *chunks))[:2] == (None, 413)


@pytest.mark.parametrize("headers", [(), [(b"content-length", b"10")]])
async def test_the_rest_of_a_body_over_the_limit_is_read_before_the_answer(headers):
    """A client that sends everything before it reads would see a broken connection instead of the answer."""
    assert await call(5, b"123", b"456", b"789", b"0", headers=headers) == (None, 413, 4)


async def test_a_client_that_waits_to_be_told_is_answered_at_once():
    headers = [(b"content-length", b"10"), (b"expect", b"100-Continue")]

    assert await call(5, b"1234567890", headers=headers) == (None, 413, 0)


async def test_no_more_is_thrown_away_than_the_bound():
    chunk = b"x" * (16 * 1024 * 1024)

    assert await call(5, *[chunk] * 8) == (None, 413, 6)
    assert await call(5, chunk, headers=[(b"content-length", b"9" * 12)]) == (None, 413, 0)


async def test_a_client_that_stalls_is_answered_in_the_end():
    sent = []

    async def stall():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "headers": [(b"content-length", b"10")]}
    await BodyLimit(None, limit=5, seconds=0.01)(scope, stall, send)

    assert sent[0]["status"] == 413


@pytest.mark.parametrize(
    ("declared", "status"), [(b"6", 413), (b"5", 200), (b"-6", 200), (b"nonsense", 200), (b"9" * 20, 413), (b"9" * 5000, 413)]
)
async def test_a_declared_length_is_believed_only_when_it_is_too_large(declared, status):
    assert (await call(5, b"12345", headers=[(b"content-length", declared)]))[1] == status


async def test_a_body_that_stops_in_the_middle_is_not_waited_for_for_ever():
    sent = []
    parts = [{"type": "http.request", "body": b"12", "more_body": True}]

    async def half():
        return parts.pop() if parts else await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await BodyLimit(None, limit=5, reading=0.01)({"type": "http", "headers": [(b"content-length", b"4")]}, half, send)

    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]


async def test_other_scopes_pass():
    async def app(scope, receive, send):
        scope["seen"] = True

    scope = {"type": "lifespan"}
    await BodyLimit(app, limit=1)(scope, None, None)
    assert scope["seen"]


async def test_a_client_that_sends_everything_before_it_reads_sees_the_answer():
    """Over real sockets: closed in the middle of what it sends, such a client has nothing but a connection that was reset."""

    async def never(scope, receive, send):
        raise AssertionError("reached the app")

    def post(port):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=b"x" * (8 * 1024 * 1024), method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=20)
        with refused.value as answer:
            return answer.code, answer.read()

    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(BodyLimit(never, limit=1000), log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    try:
        code, body = await asyncio.to_thread(post, listening.getsockname()[1])
    finally:
        server.should_exit = True
        await serving

    answer = json.loads(body)
    assert (code, answer["detail"]) == (413, "Request body exceeds maximum size of 1000 bytes")
    assert re.fullmatch("[0-9a-f]{32}", answer["request_id"])

"""Receivers that misbehave: what they send without end is bounded, and whatever they do costs an attempt its time and no more."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from shared.webhooks.http import BODY_BYTES, HEAD_BYTES, TEXT_BYTES
from shared.webhooks.ports import Failure
from tests.unit.webhooks.attempts import send
from tests.unit.webhooks.receivers import receiving


async def test_a_body_without_end_is_read_up_to_its_bound():
    sent = 0

    async def endless(request, writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with receiving(endless) as receiver:
        begun = time.monotonic()
        answer = await send(f"http://hooks.example:{receiver.port}")
        took = time.monotonic() - begun
        async with asyncio.timeout(5):
            await receiver.ended.wait()

    assert (answer.status, answer.text) == (200, "x" * TEXT_BYTES)
    assert took < 2
    assert sent < 20 * 1024 * 1024  # what the sockets' buffers hold, and not what a receiver can send in the time of an attempt


@pytest.mark.parametrize(
    "part",
    [
        b"X-Long: " + b"a" * 8000 + b"\r\n",
        b"a" * 8000,  # one header without end
    ],
)
async def test_headers_without_end_are_read_up_to_their_bound(part):
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(part)
            await writer.drain()

    async with receiving(endless) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.failure) == (None, Failure.PROTOCOL)


async def test_informational_answers_without_end_are_read_up_to_their_bound():
    async def endless(request, writer):
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100)
            await writer.drain()

    async with receiving(endless) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.failure, str(HEAD_BYTES) in answer.text) == (Failure.PROTOCOL, True)


async def test_chunks_that_are_all_framing_are_read_up_to_their_bound():
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1;" + b"a" * 4000 + b"\r\nx\r\n")
            await writer.drain()

    async with receiving(endless) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert answer.status == 200
    assert 0 < len(answer.text) < (HEAD_BYTES + BODY_BYTES) / 4000


async def test_a_receiver_that_hangs_costs_its_time_and_no_more():
    async with receiving() as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}", seconds=0.3)

    assert (answer.status, answer.failure) == (None, Failure.TIMEOUT)
    assert 250 <= answer.latency < 2000


async def test_headers_that_come_byte_by_byte_end_with_the_attempt():
    async def dripping(request, writer):
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with receiving(dripping) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}", seconds=0.3)

    assert (answer.status, answer.failure) == (None, Failure.TIMEOUT)
    assert answer.latency < 2000


async def test_a_body_that_never_ends_takes_nothing_from_the_status():
    async def dripping(request, writer):
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\nRetry-After: 120\r\n\r\nlater")
        await writer.drain()

    async with receiving(dripping) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}", seconds=0.3)

    assert (answer.status, answer.failure, answer.text, answer.retry_after) == (503, None, "later", "120")
    assert answer.latency < 250


async def test_a_body_that_breaks_off_takes_nothing_from_the_status():
    async def breaking(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        writer.close()

    async with receiving(breaking) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.text) == (200, "half")


async def test_a_reset_connection_is_no_answer():
    async def resetting(request, writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with receiving(resetting) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.failure) == (None, Failure.CONNECTION)
    assert answer.text


async def test_a_connection_that_is_closed_without_an_answer_is_none():
    async def closing(request, writer):
        writer.close()

    async with receiving(closing) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.failure, answer.text) == (Failure.CONNECTION, "the connection ended before an answer")


async def test_nobody_who_listens_is_told_so():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        answer = await send(f"http://hooks.example:{closed.getsockname()[1]}")

    assert answer.failure is Failure.CONNECTION
    assert answer.text


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"\x00\x01\x02\x03\r\n\r\n", b"HTTP/9.9 nonsense\r\n\r\n"])
async def test_what_is_no_http_is_told_so(said):
    async def speaking(request, writer):
        writer.write(said)
        await writer.drain()
        writer.write_eof()

    async with receiving(speaking) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.failure) == (None, Failure.PROTOCOL)
    assert answer.text.isprintable()

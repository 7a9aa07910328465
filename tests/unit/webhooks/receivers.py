"""Receivers of webhooks: real servers on this machine, which answer as a test wants them to, down to the byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache

import trustme

Respond = Callable[["Received", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Received:
    """A request as it came; header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """A running server: its port, what it was sent, how many connections it accepted."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    sni: list[str | None] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has closed its connection."""


def answering(status: str = "200 OK", body: bytes = b"", **headers: str) -> Respond:
    """An ordinary answer."""

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        head = [
            f"HTTP/1.1 {status}",
            f"Content-Length: {len(body)}",
            *(f"{name.replace('_', '-')}: {one}" for name, one in headers.items()),
        ]
        writer.write("\r\n".join([*head, "", ""]).encode() + body)

    return respond


@asynccontextmanager
async def receiving(
    respond: Respond | None = None, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Receiver]:
    """A server; without `respond` it answers nothing at all. Each connection takes one request."""
    receiver = Receiver()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        receiver.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            received = Received(line=head[0], headers=headers, body=await reader.readexactly(int(headers.get("content-length", 0))))
            receiver.received.append(received)
            if respond is not None:
                await respond(received, writer)
                await writer.drain()
            await reader.read()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            receiver.ended.set()
            writer.close()
            tasks.discard(task)

    if tls is not None:
        tls.sni_callback = lambda _, name, __: receiver.sni.append(name)
    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@cache
def authority() -> trustme.CA:
    """The authority that the tests trust."""
    return trustme.CA()


def certified(*names: str, by: trustme.CA | None = None) -> ssl.SSLContext:
    """The TLS of a server with a certificate for some names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (by or authority()).issue_cert(*names).configure_cert(context)
    return context


def trusting() -> ssl.SSLContext:
    """The TLS of a client that trusts the tests' authority alone."""
    return ssl.create_default_context(cadata=authority().cert_pem.bytes().decode())

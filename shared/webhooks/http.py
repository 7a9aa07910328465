"""One POST to an address that was checked: nothing that an endpoint sends, or doesn't send, costs more than bounded time and memory.

httpcore makes the connection, since it lets a network backend say where to. Name, certificate and Host header stay those of the URL, while
the socket goes to the checked address: a name that means another one a moment later (DNS rebinding) leads nowhere. No redirects, no
proxies, no cookies, no compression: httpcore has none of them.
"""

from __future__ import annotations

import asyncio
import codecs
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import httpcore

from shared.webhooks.ports import Answer, Failure
from shared.webhooks.urls import Address, Endpoint, Target

CONNECT_SECONDS: Final = 4.0
"""What one address may take to accept a connection: a second one has its chance within the time of an attempt."""
ADDRESSES: Final = 4
"""Addresses that are tried, in the resolver's order (RFC 6724)."""
BODY_BYTES: Final = 64 * 1024
"""How much of an answer's body is read before the connection is closed."""
HEAD_BYTES: Final = 64 * 1024
"""What an answer may have beside its body: headers, informational answers before it, the framing of chunks."""
TEXT_BYTES: Final = 1024
"""How much of a body is told."""

_READ: Final = 16 * 1024
_REDIRECTS: Final = range(300, 400)


class TooMuchError(Exception):
    """An endpoint sent more than is read of it."""


@cache
def trusted() -> ssl.SSLContext:
    """TLS with the certificate checked against the host's name, by the roots that `SSL_CERT_FILE` names, or certifi's."""
    import httpx  # makes the one that everything else here uses too

    return httpx.create_ssl_context()


@dataclass(frozen=True, kw_only=True, slots=True)
class Poster:
    """Sends bodies to endpoints. `tls` makes the context when it is first needed."""

    tls: Callable[[], ssl.SSLContext] = trusted
    connect_seconds: float = CONNECT_SECONDS

    async def post(self, endpoint: Endpoint, headers: Mapping[str, str], body: bytes, *, begun: float, until: float) -> Answer:
        """Send a body once; `begun` and `until` bound the whole attempt, by the monotonic clock. Raises nothing but what cancels it.

        `latency` ends with the head of the answer, or with the failure. Once the head is there, the attempt has its status, however its
        body ends.
        """
        exchange = _Exchange(endpoint=endpoint, begun=begun)
        try:
            async with asyncio.timeout(until - time.monotonic()):
                await exchange.run(self, headers, body)
        except (TimeoutError, httpcore.TimeoutException):
            return exchange.answer() or exchange.failed(Failure.TIMEOUT, "no answer in time")
        except TooMuchError:
            return exchange.answer() or exchange.failed(Failure.PROTOCOL, f"more than {HEAD_BYTES} bytes of headers")
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ssl.SSLError) as error:
            return exchange.answer() or exchange.failed(*_why(error, exchange))
        return exchange.answer() or exchange.failed(Failure.PROTOCOL, "no answer")


class _Exchange:
    """One attempt as it goes on: what has come so far."""

    def __init__(self, *, endpoint: Endpoint, begun: float) -> None:
        self._endpoint = endpoint
        self._begun = begun
        self._latency: int | None = None
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self.silent = True
        """Whether not a byte has come from the endpoint."""

    async def run(self, poster: Poster, headers: Mapping[str, str], body: bytes) -> None:
        target = self._endpoint.target
        secure = target.scheme == "https"
        network = _Pinned(self._endpoint.addresses, exchange=self, seconds=poster.connect_seconds)
        connection = httpcore.AsyncHTTPConnection(
            origin=httpcore.Origin(target.scheme.encode(), target.host.encode(), target.port),
            ssl_context=poster.tls() if secure else None,
            network_backend=network,
        )
        request = httpcore.Request(
            "POST",
            httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=_path(target)),
            headers=[("Host", target.authority), *headers.items(), ("Content-Length", str(len(body))), *_ALWAYS],
            content=body,
        )
        try:
            response = await connection.handle_async_request(request)
            self._latency = self._elapsed()
            self._headers = {name.decode("ascii", "replace").lower(): value.decode("latin-1") for name, value in response.headers}
            self._status = response.status
            async for part in response.aiter_stream():
                self._body += part[: BODY_BYTES - len(self._body)]
                if len(self._body) >= BODY_BYTES:
                    break
        finally:
            await network.aclose()

    def answer(self) -> Answer | None:
        """What the endpoint answered; None where no head of an answer came."""
        if self._status is None:
            return None
        return Answer(
            status=self._status,
            text=self._text(self._status),
            latency=self._latency or 0,
            retry_after=self._headers.get("retry-after"),
        )

    def failed(self, failure: Failure, text: str) -> Answer:
        """Why there is no answer."""
        return Answer(failure=failure, text=text, latency=self._elapsed())

    def _text(self, status: int) -> str:
        if status in _REDIRECTS:
            return f"redirects are not followed (to {_printable(self._headers.get('location', '')[:TEXT_BYTES]) or 'nowhere'})"
        coding = self._headers.get("content-encoding", "identity").strip().lower()
        if coding not in {"", "identity"}:
            return f"({_printable(coding[:40])}, which was not asked for)"
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return _printable(decoder.decode(bytes(self._body[:TEXT_BYTES])))

    def _elapsed(self) -> int:
        return round((time.monotonic() - self._begun) * 1000)


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to one of some addresses, whatever host is asked for."""

    def __init__(self, addresses: Sequence[Address], *, exchange: _Exchange, seconds: float) -> None:
        self._addresses = addresses[:ADDRESSES]
        self._exchange = exchange
        self._seconds = seconds
        self._network = httpcore.AnyIOBackend()
        self._open: httpcore.AsyncNetworkStream | None = None

    async def aclose(self) -> None:
        """Close the connection, however far it has come: httpcore leaves one open whose handshake is cancelled."""
        if self._open is not None:
            with suppress(httpcore.NetworkError, OSError):
                await self._open.aclose()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The first connection that an address accepts. Raises what the last one raised."""
        del host, timeout
        for address in self._addresses[:-1]:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._connect(address, port, local_address, socket_options)
        return await self._connect(self._addresses[-1], port, local_address, socket_options)

    async def _connect(
        self, address: Address, port: int, local_address: str | None, socket_options: Iterable[Any] | None
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._network.connect_tcp(
            str(address), port, timeout=self._seconds, local_address=local_address, socket_options=socket_options
        )
        self._open = stream
        return _Counted(stream, self._exchange)


class _Counted(httpcore.AsyncNetworkStream):
    """A stream of which no more is read than an answer may have, in whatever part of it the rest would be."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, exchange: _Exchange) -> None:
        self._stream = stream
        self._exchange = exchange
        self._left = HEAD_BYTES + BODY_BYTES

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes. Raises TooMuchError."""
        if self._left <= 0:
            raise TooMuchError
        data = await self._stream.read(min(max_bytes, self._left, _READ), timeout)
        self._left -= len(data)
        self._exchange.silent = self._exchange.silent and not data
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """The same connection, encrypted; what is counted then is what it carries."""
        return _Counted(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._exchange)

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks of the connection."""
        return self._stream.get_extra_info(info)


_ALWAYS: Final = (("Accept", "*/*"), ("Accept-Encoding", "identity"), ("Connection", "close"))


def _why(error: BaseException, exchange: _Exchange) -> tuple[Failure, str]:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Failure.TLS, f"its certificate is not valid: {cause.verify_message.rstrip('.')}"
        if isinstance(cause, ssl.SSLError):
            return Failure.TLS, f"no TLS: {cause.reason or cause}"
        if isinstance(cause, OSError) and cause.strerror:
            return Failure.CONNECTION, cause.strerror
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpcore.ProtocolError) and not exchange.silent:
        return Failure.PROTOCOL, f"no HTTP: {_printable(str(error))[:TEXT_BYTES]}"
    if isinstance(error, httpcore.ConnectError):
        return Failure.CONNECTION, "the connection could not be made"
    return Failure.CONNECTION, "the connection ended before an answer"


def _path(target: Target) -> str:
    return target.path if target.path.startswith("/") else f"/{target.path}"


def _printable(text: str) -> str:
    """Text on one line: what isn't printable is a blank."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())

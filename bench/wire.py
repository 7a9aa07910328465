"""A reverse proxy that counts: it stands between the fleet and the AWS emulator or a cluster, and passes everything on.

What is counted is what is billed: HTTP requests by service and operation, retries among them, whoever made them and whatever a library did
on its own. Every worker is given a listener of its own (a tap), so that the counts tell who made them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs

import aiohttp
from aiohttp import web
from yarl import URL

_OWN_TO_A_CONNECTION = {"connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade", "proxy-connection", "expect"}
_BODY_LIMIT = 64 * 1024 * 1024

Request = web.BaseRequest
Name = Callable[[Request, bytes], tuple[str, str]]
"""From a request and its body to the service and the operation that it is counted under."""
WATCH = "watch"


@dataclass(kw_only=True)
class Counts:
    """What went over a wire: (who, service, operation) to a number; failures also by the error's name."""

    requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)
    open: Counter[str] = field(default_factory=Counter)
    """Requests by operation that wait for their answer now; long polls among them."""
    most_open: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def while_open(self, operation: str) -> Iterator[None]:
        """A request that waits for its answer within the block."""
        self.open[operation] += 1
        self.most_open[operation] = max(self.most_open.get(operation, 0), self.open[operation])
        try:
            yield
        finally:
            self.open[operation] -= 1

    def of(self, service: str, *, without: str | None = None) -> int:
        """Requests to a service, those of one operation left out."""
        return sum(count for (_, name, operation), count in self.requests.items() if name == service and operation != without)

    def of_operation(self, operation: str) -> int:
        """Requests of one operation."""
        return sum(count for (_, _, name), count in self.requests.items() if name == operation)

    def failed(self, service: str, operation: str, error: str) -> int:
        """Requests of an operation that failed with an error."""
        return sum(count for (_, *what), count in self.failures.items() if what == [service, operation, error])

    def by_operation(self, service: str) -> dict[str, int]:
        """For the details of a figure: `who operation` to a number, the most first."""
        found = Counter({f"{who} {operation}": count for (who, name, operation), count in self.requests.items() if name == service})
        return dict(found.most_common())

    def reset(self) -> None:
        """Begin anew."""
        for counter in (self.requests, self.failures, self.sent, self.received):
            counter.clear()


class Wire:
    """Counting listeners in front of one server."""

    def __init__(self, target: str, name: Name) -> None:
        self.counts = Counts()
        self._target = URL(target)
        self._name = name
        self._session: aiohttp.ClientSession | None = None
        self._runners: list[web.ServerRunner] = []

    async def tap(self, who: str) -> str:
        """A new listener, whose requests are counted as those of `who`; returns its address."""

        async def handle(request: Request) -> web.StreamResponse:
            return await self._pass_on(who, request)

        runner = web.ServerRunner(web.Server(handle, handler_cancellation=True, access_log=None), shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._runners.append(runner)
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def close(self) -> None:
        """Close every listener."""
        for runner in self._runners:
            await runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _pass_on(self, who: str, request: Request) -> web.StreamResponse:
        request._client_max_size = _BODY_LIMIT
        if request.headers.get("Expect", "").lower() == "100-continue":
            # S3's clients ask before they send a body; the low-level server leaves the answer to its handler.
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        body = await request.read()
        service, operation = self._name(request, body)
        self.counts.requests[who, service, operation] += 1
        self.counts.sent[service] += len(body)
        with self.counts.while_open(operation):
            return await self._forward(who, service, operation, request, body)

    async def _forward(self, who: str, service: str, operation: str, request: Request, body: bytes) -> web.StreamResponse:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None))
        url = URL(f"{self._target}".rstrip("/") + request.raw_path, encoded=True)
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _OWN_TO_A_CONNECTION]
        async with self._session.request(request.method, url, headers=headers, data=body or None, allow_redirects=False) as answer:
            if operation.startswith(WATCH):
                return await self._flow(request, answer)
            data = await answer.read()
        self.counts.received[service] += len(data)
        if answer.status >= 400:
            self.counts.failures[who, service, operation, _error(answer, data)] += 1
        return web.Response(status=answer.status, headers=_headers(answer), body=data)

    async def _flow(self, request: Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_headers(answer))
        try:
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
        except (ConnectionError, aiohttp.ClientError):
            # One of both sides has gone; the other sees the end of the stream.
            pass
        return response


def aws_operation(request: Request, body: bytes) -> tuple[str, str]:
    """`dynamodb Query`, `sqs SendMessage`, `s3 PUT object`: by the header of the JSON protocols, the Action of the query protocol."""
    target = request.headers.get("X-Amz-Target")
    if target is not None:
        prefix, _, operation = target.partition(".")
        services = {"DynamoDBStreams_": "streams", "DynamoDB_": "dynamodb", "AmazonSQS": "sqs"}
        return next((service for start, service in services.items() if prefix.startswith(start)), prefix), operation
    if request.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded"):
        action = parse_qs(body.decode()).get("Action")
        if action:
            return "query", action[0]
    return "s3", f"{request.method} {'object' if request.path.strip('/').count('/') else 'bucket'}"


def kubernetes_operation(request: Request, _: bytes) -> tuple[str, str]:
    """`kubernetes POST jobs`, `kubernetes GET pods/log`; a watch is counted under its own name, since it is one long answer."""
    if request.query.get("watch") in ("1", "true"):
        return "kubernetes", WATCH
    parts = request.path.strip("/").split("/")
    place = parts.index("namespaces") + 2 if "namespaces" in parts else 2 if parts[0] == "api" else 3
    rest = parts[place:]
    resource = "/".join([rest[0], *rest[2:]]) if rest else request.path
    return "kubernetes", f"{request.method} {resource}"


def _headers(answer: aiohttp.ClientResponse) -> Mapping[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() not in _OWN_TO_A_CONNECTION}


def _error(answer: aiohttp.ClientResponse, data: bytes) -> str:
    """The name of an AWS error in one of the JSON protocols; the status where there is none."""
    _, found, rest = data.partition(b'"__type"')
    if not found:
        return str(answer.status)
    return rest.split(b'"')[1].decode().rpartition("#")[2]


@asynccontextmanager
async def wire(target: str, name: Name) -> AsyncIterator[Wire]:
    """Listeners in front of a server, until the block ends."""
    found = Wire(target, name)
    try:
        yield found
    finally:
        await found.close()

"""What sick endpoints cost the healthy ones: 50 endpoints, of which three are sick (one hangs, one answers 500, one sends 2 GB), or 30.

Ten namespaces have five endpoints each, and every endpoint is told of all the events of its namespace. The events wait in the table's
stream when the worker starts, a process of its own with every setting at its default; the clock stops when the healthy endpoints have
all of theirs. Runs in which the others are well alternate with runs in which they are sick, and the medians are compared: so both have
the same number of deliveries to make.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from bench.figures import Figure, Options
from bench.filling import heads
from bench.stage import Fleet, Stage, child, fleet, stage
from shared.clock import SystemClock
from shared.ids import RandomIds
from shared.jobs import transitions
from shared.store.webhooks import Webhooks
from shared.webhooks.model import Webhook

NAMESPACES: Final = 10
EACH: Final = 5
HEALTHY: Final = "healthy"
FEW: Final = (("hangs", *[HEALTHY] * 4), ("fails", *[HEALTHY] * 4), ("floods", *[HEALTHY] * 4), *[(HEALTHY,) * 5] * 7)
"""What the endpoints of each namespace are, where three of all are sick,"""
MANY: Final = (("hangs", "hangs", "fails", HEALTHY, HEALTHY),) * 10
"""and where 20 hang and ten answer 500."""
FLOOD: Final = 2 * 1024**3
BOUND: Final = 1.2
SECONDS: Final = 600.0
_WRITERS: Final = 16

Kinds = Sequence[Sequence[str]]
Respond = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Endpoint:
    """A receiver: what it has had, and what it sent."""

    namespace: str
    kind: str
    sick: bool
    port: int = 0
    had: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    sent: int = 0


@dataclass
class Round:
    """One run: seconds until the healthy had all, and what came of the sick."""

    seconds: float
    doubles: int
    sick: dict[str, dict[str, int]]


async def run(options: Options) -> list[Figure]:
    """The ratios of the times beside sick endpoints and without."""
    few, many, rounds = (200, 100, 1) if options.quick else (1000, 400, 2)
    async with stage(nodes="1xm5.large") as place:
        beside_few, with_sick = await _ratio(place, few, rounds, FEW, name="webhooks: time of the healthy beside the sick")
        beside_many, _ = await _ratio(place, many, rounds, MANY, name="webhooks: time of the healthy beside more that are sick")
    flood = max(one.sick["floods"]["sent"] / max(one.sick["floods"]["attempts"], 1) for one in with_sick)
    return [
        beside_few,
        beside_many,
        Figure(
            name="webhooks: what a receiver gets rid of that sends 2 GB",
            value=flood / 1024**2,
            bound=16,
            unit="MiB a delivery",
            note="64 KiB are read; the rest is what the buffers of both sockets take before the connection is reset",
        ),
    ]


async def _ratio(place: Stage, events: int, rounds: int, kinds: Kinds, *, name: str) -> tuple[Figure, list[Round]]:
    """The figure, and the rounds in which the sick were sick."""
    without: list[Round] = []
    with_sick: list[Round] = []
    for _ in range(rounds):
        without.append(await _round(place, events, kinds, sick=False))
        with_sick.append(await _round(place, events, kinds, sick=True))
    ratio = statistics.median(one.seconds for one in with_sick) / statistics.median(one.seconds for one in without)
    healthy = sum(one.count(HEALTHY) for one in kinds)
    others = NAMESPACES * EACH - healthy
    note = f"{events} events, {events * EACH:,} deliveries; until {healthy} healthy endpoints had all, beside {others} that are sick or not"
    details = {
        "seconds_without": [one.seconds for one in without],
        "seconds_with": [one.seconds for one in with_sick],
        "sick": with_sick[-1].sick,
        "received_twice": sum(one.doubles for one in (*without, *with_sick)),
    }
    return Figure(name=name, value=ratio, bound=BOUND, unit="times", note=note, details=details), with_sick


async def _round(place: Stage, events: int, kinds: Kinds, *, sick: bool) -> Round:
    async with fleet(place) as found, _receivers(kinds, sick=sick) as endpoints:
        await _subscribe(found, endpoints)
        jobs = await _happen(found, events)
        healthy = [one for one in endpoints if one.kind == HEALTHY]
        environment = found.environment(place.endpoint, GPUFLEET_WEBHOOK_LOCAL="true")
        begun = time.monotonic()
        async with child("webhooks", "workers.webhooks", scratch=place.scratch, env=environment) as worker:
            async with asyncio.timeout(SECONDS):
                while any(len(one.had) < jobs[one.namespace] for one in healthy):
                    assert worker.returncode is None
                    await asyncio.sleep(0.02)
            seconds = time.monotonic() - begun
        doubles = sum(sum(one.had.values()) - len(one.had) for one in healthy)
        return Round(
            seconds=seconds,
            doubles=doubles,
            sick={kind: _all_of(kind, endpoints) for kind in sorted({one.kind for one in endpoints} - {HEALTHY})},
        )


def _all_of(kind: str, endpoints: list[Endpoint]) -> dict[str, int]:
    those = [one for one in endpoints if one.kind == kind]
    return {"attempts": sum(one.attempts for one in those), "sent": sum(one.sent for one in those)}


async def _subscribe(found: Fleet, endpoints: list[Endpoint]) -> None:
    webhooks, now = Webhooks(found.core.table), SystemClock().now()
    for one in endpoints:
        await webhooks.create(
            Webhook(
                id=RandomIds().job(),
                url=f"http://127.0.0.1:{one.port}/hook",
                events=("job.queued",),
                namespace=one.namespace,
                created_at=now,
                created_by="bench",
            )
        )


async def _happen(found: Fleet, events: int) -> Counter[str]:
    """So many jobs are submitted, each of which is one event; how many in each namespace."""
    names = [f"team-{number % NAMESPACES}" for number in range(events)]
    queue = iter(names)

    async def write() -> None:
        for namespace in queue:
            head = next(heads(1)).model_copy(update={"namespace": namespace})
            await found.core.store.write(transitions.submitted(head))

    await asyncio.gather(*(write() for _ in range(_WRITERS)))
    return Counter(names)


@asynccontextmanager
async def _receivers(kinds: Kinds, *, sick: bool) -> AsyncIterator[list[Endpoint]]:
    """Servers for all endpoints."""
    endpoints = [Endpoint(namespace=f"team-{namespace}", kind=kind, sick=sick) for namespace, those in enumerate(kinds) for kind in those]
    servers = []
    for endpoint in endpoints:
        server = await asyncio.start_server(_serving(endpoint), "127.0.0.1", 0)
        endpoint.port = server.sockets[0].getsockname()[1]
        servers.append(server)
    try:
        yield endpoints
    finally:
        for server in servers:
            server.close()


def _serving(endpoint: Endpoint) -> Respond:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            headers = _headers(await reader.readuntil(b"\r\n\r\n"))
            await reader.readexactly(int(headers["content-length"]))
            endpoint.attempts += 1
            match endpoint.kind if endpoint.sick else HEALTHY:
                case "hangs":
                    await reader.read()
                case "fails":
                    writer.write(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    await writer.drain()
                case "floods":
                    await _flood(endpoint, writer)
                case _:
                    endpoint.had[headers["webhook-id"]] += 1
                    writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
                    await writer.drain()
        writer.close()

    return serve


async def _flood(endpoint: Endpoint, writer: asyncio.StreamWriter) -> None:
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {FLOOD}\r\n\r\n".encode())
    part = bytes(1024 * 1024)
    for _ in range(FLOOD // len(part)):
        writer.write(part)
        await writer.drain()
        endpoint.sent += len(part)


def _headers(head: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.lower(): value.strip() for name, _, value in lines}

"""Simulated clusters under the real Kubernetes adapter: a transport whose API server lives in this process and in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from tests.simulation.faults import COMMON, Fault, Gate
from tests.simulation.processes import EPOCH
from tests.simulation.workload import NAMESPACE, SPOT_TYPE
from workers.local.cluster import Driver, NodeShape, Pace, Response, SimulatedCluster, Stream

_READ = (*COMMON, Fault.TOO_MANY)
_WRITE = (*COMMON, Fault.TOO_MANY, Fault.GATEWAY_TIMEOUT)
_PATCH = (*_WRITE, Fault.CONFLICT)
NODES = (
    NodeShape(name="cpu-1"),
    NodeShape.of_type("g5.12xlarge", name="gpu-1"),
    replace(NodeShape.of_type(SPOT_TYPE, name="spot-1", capacity_type="spot"), taints=()),
)


def simulated_cluster(region: str, *, loop: asyncio.AbstractEventLoop, seed: int, pace: Pace, kueue_queue: str | None) -> SimulatedCluster:
    """One region's cluster, which the running event loop moves on. With a queue, Kueue admits two jobs at a time."""

    def clock() -> float:
        return EPOCH.timestamp() + loop.time()

    cluster = SimulatedCluster(
        name=region,
        region=region,
        nodes=NODES,
        clock=clock,
        seed=seed,
        pace=pace,
        namespaces=(NAMESPACE,),
        queues={kueue_queue: {"cpu": "2"}} if kueue_queue else None,
        events=False,
    )
    Driver(cluster, clock=clock)
    return cluster


class SimulatedTransport:
    """Implements `shared.clusters.transport.Transport` for one process, with the faults of the way."""

    def __init__(self, cluster: SimulatedCluster, gate: Gate) -> None:
        self._cluster = cluster
        self._gate = gate

    async def send(self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> SimulatedAnswer:
        """Send a request through the gate."""
        data = json.dumps(body).encode() if body is not None else None
        possible = {"GET": _READ, "PATCH": _PATCH}.get(method, _WRITE)
        sent = dict(headers)

        def effect() -> SimulatedAnswer:
            return SimulatedAnswer(self._cluster.request(method, unquote(path), query, sent, data), self._gate)

        about = f"{method} {self._cluster.region}{path}{'?watch' if query.get('watch') else ''}"
        return await self._gate.call(about, effect, possible=possible, failure=self._failure)

    async def close(self) -> None:
        """There is nothing to close."""

    def _failure(self, fault: Fault) -> BaseException | SimulatedAnswer:
        chance = self._gate.faults.chance
        match fault:
            case Fault.CONFLICT:
                return self._status(409, "Conflict", "the object has been modified; please apply your changes to the latest version")
            case Fault.TOO_MANY:
                return self._status(429, "TooManyRequests", "please slow down", {"Retry-After": str(chance.randint(1, 10))})
            case Fault.GATEWAY_TIMEOUT:
                return self._status(504, "Timeout", "request did not complete within requested timeout")
            case Fault.REFUSED if chance.random() < 0.6:
                return self._status(chance.choice((500, 503)), "InternalError", "injected")
            case _:
                return ConnectionResetError("injected")

    def _status(self, code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> SimulatedAnswer:
        status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code}
        body = json.dumps(status).encode()
        return SimulatedAnswer(
            Response(status=code, headers={"Content-Type": "application/json", **(headers or {})}, body=body), self._gate
        )


class SimulatedAnswer:
    """Implements `shared.clusters.transport.Answer`."""

    def __init__(self, answer: Response | Stream, gate: Gate) -> None:
        self._answer = answer
        self._gate = gate
        self._changed = asyncio.Event()
        if isinstance(answer, Stream):
            answer.subscribe(self._changed.set)

    @property
    def shown(self) -> str:
        """The answer in a few characters, for the trace."""
        return str(self._answer.status)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        return self._answer.headers

    async def read(self) -> bytes:
        """The whole body."""
        if isinstance(self._answer, Response):
            return self._answer.body
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; a watch may expire or break in its midst."""
        if isinstance(self._answer, Response):
            yield self._answer.body
            return
        while True:
            self._changed.clear()
            lines = self._answer.take()
            if not lines:
                if self._answer.closed:
                    return
                await self._changed.wait()
                continue
            for line in lines:
                await self._gate.life.thaw()
                await asyncio.sleep(self._gate.latency(slow=self._gate.faults.happens(Fault.SLOW)))
                self._gate.life.check()
                fault = self._gate.faults.choose((Fault.WATCH_CLOSED, Fault.WATCH_EXPIRED, Fault.LOST, Fault.CRASH_BEFORE))
                if fault is not None:
                    self._gate.faults.tell(self._gate.life.name, fault, "watch")
                    if fault is Fault.WATCH_EXPIRED:
                        yield _EXPIRED
                    if fault is Fault.CRASH_BEFORE:
                        self._gate.crash()
                    if fault is Fault.LOST:
                        raise ConnectionResetError("injected")
                    return
                yield line

    def close(self) -> None:
        """Let go of the answer."""
        if isinstance(self._answer, Stream):
            self._answer.close()


_EXPIRED = (
    json.dumps(
        {
            "type": "ERROR",
            "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410},
        }
    ).encode()
    + b"\n"
)

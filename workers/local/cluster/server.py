"""Serves simulated clusters over HTTP on the loopback interface, one port each, in real time.

Without an `Access` there is no authentication. Nothing but this machine may reach it, or a network of containers in which it has a name of
its own; requests that a browser sends for some page are refused.
Beside the Kubernetes API there are a few paths for tests:

| request | does |
|---|---|
| `POST /_faults` | puts in a `Fault`, or a list of them; `GET` shows those that wait, `DELETE` takes them out |
| `POST /_nodes/<name>/interrupt` | takes a node away; JSON body, all optional: `reason`, `back_after` in seconds, `returns` |
| `POST /_compact` | forgets the history, so that watches get their 410 |
| `GET /_started` | every pod that has started, in order |
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import Any

from aiohttp import web
from pydantic import TypeAdapter, ValidationError

from workers.local.cluster.access import Access
from workers.local.cluster.answers import RefusedError, Response, Stream, bad_request, no_such_path
from workers.local.cluster.cluster import SimulatedCluster
from workers.local.cluster.driver import Driver
from workers.local.cluster.faults import Fault, Faults, answer_with
from workers.local.cluster.in_process import follow
from workers.local.cluster.objects import to_json

LOOPBACK = "127.0.0.1"
# A little above the API server's own limit on bodies, so that its own answer is given.
_BODY_LIMIT = 4 * 1024 * 1024
_LOCAL_HOSTS = (LOOPBACK, "localhost", "[::1]")
_OK = 200
_FAULTS: TypeAdapter[list[Fault]] = TypeAdapter(list[Fault])


class ClusterServer:
    """One cluster on one port. `port` 0 takes a free one; `url` is known after `start`. With `access` callers are held to their rights.

    With a `name` it listens on all addresses, for others who know it by that name.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        *,
        port: int = 0,
        clock: Callable[[], float] = time.time,
        access: Access | None = None,
        name: str | None = None,
    ) -> None:
        self._name = name
        self.cluster = cluster
        self.faults = Faults()
        self.port = port
        self._access = access
        self._clock = clock
        self._runner: web.ServerRunner | None = None
        self._driver: Driver | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self._name or LOOPBACK}:{self.port}"

    async def start(self) -> None:
        """Listen, and let the cluster's time run."""
        loop = asyncio.get_running_loop()

        def make(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_BODY_LIMIT)

        # Without cancellation the handler of a quiet watch would outlive its client.
        server = web.Server(self._handle, request_factory=make, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK if self._name is None else "0.0.0.0", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._driver = Driver(self.cluster, clock=self._clock)

    async def stop(self) -> None:
        """Close every connection and let the cluster stand still."""
        if self._driver is not None:
            self._driver.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Origin") or (request.host or "").rsplit(":", 1)[0] not in (*_LOCAL_HOSTS, self._name):
            return _whole(RefusedError(403, "Forbidden", "this server is for programs on this machine").response())
        body = await request.read() if request.body_exists else None
        method, path, query = request.method, request.path, request.query
        if path.startswith("/_"):
            return _whole(self._answer_test(method, path, body))
        fault = self.faults.take(method, path, query)
        if fault is not None and fault.delay:
            await asyncio.sleep(fault.delay)
        try:
            note = self._access.check(method, path, query, request.headers, self._exists) if self._access is not None else None
        except RefusedError as refusal:
            return _whole(refusal.response())
        answer = answer_with(fault, self.cluster, method, path, query, request.headers, body)
        if note is not None:
            note(answer.status if answer is not None else 0)
        if answer is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        return _whole(answer) if isinstance(answer, Response) else await _flowing(request, answer)

    def _exists(self, path: str) -> bool:
        return self.cluster.request("GET", path, {}, {}, None).status == _OK

    def _answer_test(self, method: str, path: str, body: bytes | None) -> Response:
        try:
            return _ok(self._do_for_test(method, path, body))
        except RefusedError as refusal:
            return refusal.response()
        except (ValidationError, ValueError, TypeError) as error:
            return bad_request(str(error)).response()

    def _do_for_test(self, method: str, path: str, body: bytes | None) -> Any:
        content = json.loads(body) if body else {}
        match method, path.strip("/").split("/"):
            case "POST", ["_faults"]:
                for fault in _FAULTS.validate_python(content if isinstance(content, list) else [content]):
                    self.faults.add(fault)
                return {"waiting": len(self.faults.waiting)}
            case "GET", ["_faults"]:
                return [fault.model_dump() for fault in self.faults.waiting]
            case "DELETE", ["_faults"]:
                self.faults.clear()
                return {"waiting": 0}
            case "POST", ["_nodes", name, "interrupt"]:
                return self._interrupt(name, content)
            case "POST", ["_compact"]:
                self.cluster.compact()
                return {"resourceVersion": str(self.cluster.resource_version)}
            case "GET", ["_started"]:
                return [asdict(start) for start in self.cluster.started]
            case _:
                raise no_such_path()

    def _interrupt(self, name: str, options: Mapping[str, Any]) -> Any:
        if name not in self.cluster.node_names:
            raise RefusedError(404, "NotFound", f'nodes "{name}" not found')
        self.cluster.interrupt_node(name, **options)
        return {"interrupted": name}


def _ok(value: Any) -> Response:
    return Response(status=200, body=to_json(value))


def _whole(answer: Response) -> web.Response:
    return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


async def _flowing(request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
    response = web.StreamResponse(headers=stream.headers)
    try:
        await response.prepare(request)
        async for lines in follow(stream):
            await response.write(lines)
        if stream.broken and request.transport is not None:
            request.transport.close()  # what was written still goes out; a body in chunks without its end is a broken one
        else:
            await response.write_eof()
    except ConnectionError:
        # The client has gone; there is nobody to tell.
        pass
    finally:
        stream.close()
    return response


@asynccontextmanager
async def serve(
    clusters: Sequence[SimulatedCluster], *, ports: Sequence[int] = (), access: Access | None = None, name: str | None = None
) -> AsyncIterator[list[ClusterServer]]:
    """Serve clusters whose clock is `time.time` until the block ends; ports that are not given are free ones."""
    async with AsyncExitStack() as stack:
        servers: list[ClusterServer] = []
        for number, cluster in enumerate(clusters):
            server = ClusterServer(cluster, port=ports[number] if number < len(ports) else 0, access=access, name=name)
            await server.start()
            stack.push_async_callback(server.stop)
            servers.append(server)
        yield servers

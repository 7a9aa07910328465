"""Answers whoever watches a process, such as a kubelet or a container's health check, on a port of its own (`GPUFLEET_PROBE_PORT`).

| request | 200 | 503, with the reason as text |
|---|---|---|
| `GET /livez` | the loop goes on, or waits | a pass has been under way for a quarter of an hour: only a new process helps |
| `GET /readyz` | the last pass did what there was to do | none has yet, the last one failed or doesn't end, or the process ends |

It answers in the event loop of the worker itself: a process that is stuck gives no answer at all, which whoever asks takes for a 503. AWS
or a cluster that is away makes a worker unready and never dead, since a new process could do no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, Protocol

import structlog

from shared.clock import Clock, SystemClock
from shared.errors import InvalidError, Problem
from shared.health.beats import Progress, state_of
from shared.health.model import LoopState
from shared.settings import Settings

log = structlog.get_logger()

DEAD_AFTER: Final = timedelta(minutes=15)
"""How long a pass may be under way before its process is to be started anew; it is told as stalled long before (`STALLED_AFTER`)."""


class Vitals(Protocol):
    """How a process is."""

    def dead(self) -> str | None:
        """Why only a new process would help; None where this one goes on."""
        ...

    async def unready(self) -> str | None:
        """Why the process doesn't do its work just now; None where it does."""
        ...


class LoopVitals:
    """How a process is, by what its loop notes of its passes."""

    def __init__(self, passes: Progress, clock: Clock | None = None) -> None:
        self._passes = passes
        self._clock = clock or SystemClock()

    def dead(self) -> str | None:
        """A pass doesn't end."""
        began, now = self._passes.started_at, self._clock.now()
        if began is None or now - began <= DEAD_AFTER or state_of(self._passes, now) is not LoopState.STALLED:
            return None
        return _under_way(began.isoformat())

    async def unready(self) -> str | None:
        """The last pass failed or doesn't end, or there has been none."""
        passes = self._passes
        match state_of(passes, self._clock.now()):
            case LoopState.FAILING:
                return f"the last pass failed: {passes.error}"
            case LoopState.STALLED if passes.started_at is not None:
                return _under_way(passes.started_at.isoformat())
        return "no pass has succeeded yet" if passes.succeeded_at is None else None


def _under_way(since: str) -> str:
    return f"a pass has been under way since {since}"


@asynccontextmanager
async def probed(settings: Settings, vitals: Vitals, stop: asyncio.Event) -> AsyncIterator[int | None]:
    """Answer as long as the block lasts, where a port is set; gives the port. From `stop` on the process isn't ready.

    Raises InvalidError where it can't listen there.
    """
    if settings.probe_port is None:
        yield None
        return
    from aiohttp import web

    def answer(reason: str | None) -> web.Response:
        return web.Response(status=200 if reason is None else 503, text=f"{reason or 'ok'}\n", headers={"Cache-Control": "no-store"})

    async def live(_: web.Request) -> web.Response:
        return answer(vitals.dead())

    async def ready(_: web.Request) -> web.Response:
        return answer("asked to end" if stop.is_set() else await vitals.unready())

    app = web.Application()
    app.add_routes([web.get("/livez", live), web.get("/readyz", ready)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, keepalive_timeout=5.0)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, settings.probe_host, settings.probe_port).start()
        except OSError as error:
            rule = (
                f"must be a port at which probes can be answered (GPUFLEET_PROBE_HOST is {settings.probe_host}): {error.strerror or error}"
            )
            raise InvalidError([Problem(pointer="GPUFLEET_PROBE_PORT", value=settings.probe_port, rule=rule)]) from error
        port = int(runner.addresses[0][1])
        log.info("probes answered", host=settings.probe_host, port=port)
        yield port
    finally:
        await runner.cleanup()

"""How every worker starts and ends: one event loop, and an event that is set when it is asked to stop (SIGTERM, SIGINT)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from shared.errors import FleetError, InvalidError
from shared.logging import configure
from shared.settings import Settings, load

log = structlog.get_logger()

Main = Callable[[asyncio.Event], Awaitable[None]]
_FAILED, _UNUSABLE_SETTING = 1, 2


def owner(region: str) -> str:
    """The name of this worker in claims: region, host and process."""
    return f"{region}/{socket.gethostname()}/{os.getpid()}"


def serve(main: Main, *, worker: str, **bound: str) -> None:
    """Run a worker until it ends or is asked to; a second request ends it at once. `worker` and `bound` are said in every log line.

    What it can't go on with is one line, and the exit code: 2 for a setting that can't be used, 1 for all else that the fleet raises.
    """
    configure(worker=worker, **bound)
    try:
        configure(load(Settings).log_level, worker=worker, **bound)
        asyncio.run(_serve(main))
    except FleetError as error:
        log.error("ended", error=str(error))
        sys.exit(_UNUSABLE_SETTING if isinstance(error, InvalidError) else _FAILED)


async def _serve(main: Main) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    log.info("started", pid=os.getpid())
    await main(stop)
    log.info("stopped", pid=os.getpid())


async def first_of(*events: asyncio.Event, seconds: float) -> bool:
    """Wait until one of the events is set, so many seconds at most; whether one is."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return any(event.is_set() for event in events)


async def until_stopped(stop: asyncio.Event, *tasks: asyncio.Task[None]) -> None:
    """Wait until the worker is asked to stop or one of its tasks has ended; a task that failed raises here."""
    waiting = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        waiting.cancel()

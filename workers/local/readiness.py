"""How each kind of child is asked whether it is ready. Every question is cheap and comes back at once; the supervisor repeats it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

from workers.local import logfiles
from workers.local.child import Child
from workers.local.ports import LOOPBACK

Ready = Callable[[Child], Awaitable[bool]]

_ANSWER_SECONDS = 3.0
_STARTED = re.compile(rb"\bstarted\b")


def answers(port: int, *paths: str, host: str = LOOPBACK) -> Ready:
    """Ready when a GET of every path is answered with 200."""

    async def ready(_: Child) -> bool:
        for path in paths:
            if await status(port, path, host=host) != HTTPStatus.OK:
                return False
        return True

    return ready


def every(checks: Sequence[Ready]) -> Ready:
    """Ready when all of them say so."""

    async def ready(child: Child) -> bool:
        for check in checks:
            if not await check(child):
                return False
        return True

    return ready


def says_started() -> Ready:
    """Ready when the log of this start has the line that every worker writes when its loop begins."""

    async def ready(child: Child) -> bool:
        return logfiles.says(child.log, _STARTED, begin=child.log_begin)

    return ready


async def status(port: int, path: str, *, host: str = LOOPBACK) -> int | None:
    """The HTTP status of a GET; None when nobody answers.

    By hand, since the supervisor asks before anything heavier than the standard library is worth importing.
    """
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\nConnection: close\r\n\r\n".encode())
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    parts = line.split()
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else None

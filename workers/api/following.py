"""Answers that go on while something is written: counted, ended when their client leaves, when its caller may not call any more, and when
the process is asked to stop.

The last is what makes a restart quick: a server that is asked to end lets requests finish first, and these would finish with their jobs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from shared.errors import NotHereError, UnavailableError

FOLLOWERS: Final = 200
"""Answers of a process that go on at the same time; each has two watches and the streams of its containers."""
KEEP_ALIVE_SECONDS: Final = 15.0
CALLER_SECONDS: Final = 10.0
"""How often it is asked whether the caller is still known: with what a process remembers of a key, a revoked one is refused in a minute."""
RETRY_MILLISECONDS: Final = 1000
"""How long a browser waits before it takes a stream up again."""
_LAST_WRITE_SECONDS: Final = 1.0
EVENTS_TYPE: Final = "text/event-stream"
_NAMED: Final = b"event:"
"""How an event begins that is no line."""

AGAIN: Final = "again"
"""The last event of a stream that was ended for its length alone; its client comes again with the position that it has."""

CallerCheck = Callable[[], Awaitable[bool]]
"""Whether the caller of a request would still be let in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """How much one answer may be of what goes on: it ends at the first of these, for its client to come again."""

    seconds: float
    after_first_seconds: float | None = None
    """Instead, once it has a line: since the first one."""
    size: int = sys.maxsize
    """Bytes of lines."""
    whole: bool = False
    """An answer reaches its client only when it is whole. What can't be gone on with is then refused."""


FLOWING: Final = Stretch(seconds=3600.0)
"""Of a server."""
WHOLE: Final = Stretch(seconds=4.0, after_first_seconds=1.0, size=4 * 1024 * 1024, whole=True)
"""Of Lambda, which gives API Gateway whole answers of 6 MB at most, in 29 seconds. Its client reads lines about a second late."""


class Following:
    """The answers of this process that go on. `stopping` is set when the process is asked to end."""

    def __init__(self, *, stopping: asyncio.Event | None = None, limit: int = FOLLOWERS, stretch: Stretch = FLOWING) -> None:
        self.stopping = stopping or asyncio.Event()
        self.stretch = stretch
        self._free = limit

    def enter(self) -> None:
        """Take a place. Raises UnavailableError where there is none."""
        if self._free <= 0 or self.stopping.is_set():
            raise UnavailableError("this process follows as many logs as it can, or is about to end", retry_after=5.0)
        self._free -= 1

    def leave(self) -> None:
        """Give the place back."""
        self._free += 1


class FollowingResponse(StreamingResponse):
    """An answer made of chunks that come over time; as events where `events`, with comments in between that keep it alive.

    Its place is taken when it is made. However it ends, `chunks` is closed then. A stream of events that is ended for its caller has no
    last event, as if the connection had broken: its client comes again, and is refused.
    """

    def __init__(self, chunks: AsyncGenerator[bytes, None], following: Following, *, events: bool) -> None:
        if following.stretch.whole and not events:
            raise NotHereError(f"here a log is followed as events: send Accept: {EVENTS_TYPE}, and come again with Last-Event-ID")
        following.enter()
        self._following = following
        self._over = asyncio.Event()
        self._chunks = _kept_alive(chunks, self._over, following.stretch) if events else _until(chunks, self._over)
        # Proxies that buffer (nginx) are asked not to, and caches not to keep it.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(self._chunks, media_type=EVENTS_TYPE if events else "text/plain; charset=utf-8", headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; a client that takes nothing any more holds the end of the process up for a second at the most."""
        serving = asyncio.ensure_future(super().__call__(scope, receive, send))
        stopping = asyncio.ensure_future(self._following.stopping.wait())
        refused = asyncio.ensure_future(_refused(scope))
        try:
            await asyncio.wait([serving, stopping, refused], return_when=asyncio.FIRST_COMPLETED)
            self._over.set()
            await asyncio.wait([serving], timeout=_LAST_WRITE_SECONDS)
            if serving.done():
                serving.result()
        finally:
            everything = (serving, stopping, refused)
            for one in everything:
                one.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
            await self._chunks.aclose()
            self._following.leave()


async def _refused(scope: Scope) -> None:
    """Wait until the caller of a request isn't known any more, or not as he was; while that can't be told, he is."""
    check: CallerCheck | None = scope.get("state", {}).get("caller_check")
    while check is None or await check():  # noqa: ASYNC110 - nobody tells when a key ends
        await asyncio.sleep(CALLER_SECONDS)


async def _until(chunks: AsyncGenerator[bytes, None], over: asyncio.Event) -> AsyncGenerator[bytes, None]:
    async with aclosing(_with_pauses(chunks, over, pause=lambda: None)) as paused:
        async for chunk in paused:
            yield chunk or b""


async def _kept_alive(chunks: AsyncGenerator[bytes, None], over: asyncio.Event, stretch: Stretch) -> AsyncGenerator[bytes, None]:
    now = asyncio.get_running_loop().time
    until, size = now() + stretch.seconds, 0
    yield format_sse_event(retry=RETRY_MILLISECONDS)
    async with aclosing(_with_pauses(chunks, over, pause=lambda: min(KEEP_ALIVE_SECONDS, max(until - now(), 0.0)))) as paused:
        async for chunk in paused:
            # What is left out comes again, since its client has the position before it; so the first line never is.
            if (chunk is None or size) and (now() >= until or size >= stretch.size):
                yield event({}, kind=AGAIN)
                return
            if chunk is None:
                yield KEEPALIVE_COMMENT
                continue
            if not chunk.startswith(_NAMED):
                if not size and stretch.after_first_seconds is not None:
                    until = now() + stretch.after_first_seconds
                size += len(chunk)
            yield chunk


async def _with_pauses(
    chunks: AsyncGenerator[bytes, None], over: asyncio.Event, *, pause: Callable[[], float | None]
) -> AsyncGenerator[bytes | None, None]:
    """The chunks, and None after each pause of so many seconds without one; ends when it is over."""
    stop = asyncio.ensure_future(over.wait())
    upcoming: asyncio.Future[bytes | None] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(chunks, None))
            both: list[asyncio.Future[Any]] = [upcoming, stop]
            done, _ = await asyncio.wait(both, timeout=pause(), return_when=asyncio.FIRST_COMPLETED)
            if stop in done:
                return
            if upcoming not in done:
                yield None
                continue
            chunk, upcoming = upcoming.result(), None
            if chunk is None:
                return
            yield chunk
    finally:
        stop.cancel()
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.gather(upcoming, return_exceptions=True)
        await chunks.aclose()


def event(data: Mapping[str, Any], *, kind: str | None = None, id: str | None = None) -> bytes:  # noqa: A002 - its name on the wire
    """One event with JSON data."""
    return format_sse_event(data_str=json.dumps(data, ensure_ascii=False, separators=(",", ":")), event=kind, id=id)

"""What a job's containers wrote: kept logs of an execution that has ended, live ones of one that runs, and following until the end.

Several containers in one answer are told apart by a line before each, `==> pod/container <==`, as `tail` does it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from shared.clusters.kept_logs import KeptLog, read_kept
from shared.errors import ConflictError, FleetError, NotFoundError, UnavailableError
from shared.jobs.model import Head
from workers.api.core import Core


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Which logs: None means every pod, every container, from the beginning."""

    execution: int | None = None
    pod: str | None = None
    container: str | None = None
    tail: int | None = None


async def read(core: Core, head: Head, wanted: Wanted) -> AsyncIterator[bytes]:
    """The logs as they stand. What can't be read is told here, before anything is sent.

    Raises NotFoundError where there are none, ConflictError where none can be yet, UnavailableError.
    """
    number = wanted.execution if wanted.execution is not None else _latest(head)
    if not 1 <= number <= head.execution:
        raise NotFoundError("Execution", f"{head.id}/{number}")
    if number == head.execution and head.state.on_cluster:
        if core.logs is not None:
            return await _begun(core.logs.read(head, pod=wanted.pod, container=wanted.container, tail=wanted.tail, follow=False))
        raise UnavailableError("this process reaches no cluster; logs can be read when the execution has ended")
    return _kept(core, await _chosen(core, head, number, wanted), wanted.tail)


async def follow(core: Core, head: Head, wanted: Wanted) -> AsyncIterator[bytes]:
    """The logs from here on, over retries, until the job is terminal. What was shown live isn't shown again from what was kept."""
    shown: dict[int, int] = {}
    number = wanted.execution if wanted.execution is not None else head.execution
    while True:
        if number == head.execution and head.state.on_cluster and core.logs is not None:
            async for chunk in _live(core, head, wanted, shown):
                yield chunk
        elif number < head.execution or head.state.terminal:
            async for chunk in _rest(core, head, number, wanted, shown):
                yield chunk
            if wanted.execution is not None or number >= head.execution:
                return
            number += 1
            continue
        await asyncio.sleep(core.look_seconds)
        head = await core.jobs.head(head.id) or head


async def _live(core: Core, head: Head, wanted: Wanted, shown: dict[int, int]) -> AsyncIterator[bytes]:
    """What a running execution writes; after a broken connection, only what had not been shown."""
    assert core.logs is not None
    skip = shown.get(head.execution, 0)
    tail = wanted.tail if not skip else None
    try:
        async for chunk in core.logs.read(head, pod=wanted.pod, container=wanted.container, tail=tail, follow=True):
            fresh = chunk[skip:]
            skip = max(0, skip - len(chunk))
            if fresh:
                shown[head.execution] = shown.get(head.execution, 0) + len(fresh)
                yield fresh
    except FleetError:
        # No container has started yet, the connection broke, or the pods are gone: the next look at the job tells.
        return


async def _rest(core: Core, head: Head, number: int, wanted: Wanted, shown: dict[int, int]) -> AsyncIterator[bytes]:
    """The kept logs of an execution of which nothing was shown live."""
    if shown.get(number):
        return
    try:
        logs = await _chosen(core, head, number, wanted)
    except FleetError:
        return
    async for chunk in _kept(core, logs, wanted.tail):
        yield chunk


async def _chosen(core: Core, head: Head, number: int, wanted: Wanted) -> list[KeptLog]:
    index = await read_kept(core.objects, head.id, number)
    if index is None:
        if number == head.execution and not head.state.terminal:
            raise ConflictError(f"Job '{head.id}' is {head.state}: nothing of execution {number} has written a log yet")
        raise NotFoundError("Logs of execution", f"{head.id}/{number}")
    found = [one for one in index.containers if wanted.pod in (None, one.pod) and wanted.container in (None, one.container)]
    if not found:
        there = ", ".join(f"{one.pod}/{one.container}" for one in index.containers)
        raise NotFoundError("Logs of container", f"{wanted.pod or '*'}/{wanted.container or '*'}", hint=f"kept are {there}")
    return found


async def _kept(core: Core, logs: list[KeptLog], tail: int | None) -> AsyncIterator[bytes]:
    for one in logs:
        data = await core.objects.get(one.key)
        if len(logs) > 1:
            yield f"==> {one.pod}/{one.container} <==\n".encode()
        if data is None:
            yield b"(this log is no longer kept)\n"
        else:
            yield last_lines(data, tail)


def last_lines(data: bytes, tail: int | None) -> bytes:
    """The last lines of a log; None means all."""
    if tail is None:
        return data
    return b"".join(deque(data.splitlines(keepends=True), maxlen=tail))


def _latest(head: Head) -> int:
    """The execution whose logs are meant where none is named: the current one, or the one before while that waits."""
    if head.execution > 1 and head.object is None and not head.state.on_cluster:
        return head.execution - 1
    return head.execution


async def _begun(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A stream of which the first part has been read, so that an error of its beginning is an answer and not a broken one."""
    try:
        first = await anext(stream)
    except StopAsyncIteration:
        first = b""

    async def whole() -> AsyncIterator[bytes]:
        if first:
            yield first
        async for chunk in stream:
            yield chunk

    return whole()

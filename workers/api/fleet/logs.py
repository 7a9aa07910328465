"""What a job's containers wrote, as it stands: kept logs of an execution that has ended, live ones of one that runs.

Several containers in one answer are told apart by a line before each, `==> pod/container <==`, as `tail` does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from shared.clusters.kept_logs import KeptLog, KeptLogs, read_kept
from shared.errors import ConflictError, NotFoundError, UnavailableError
from shared.jobs.model import Head
from workers.api.core import Core
from workers.api.fleet.kept_lines import text_of


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
            return await _begun(core.logs.read(head, pod=wanted.pod, container=wanted.container, tail=wanted.tail))
        raise UnavailableError("this process reaches no cluster; logs can be read when the execution has ended")
    _, logs = await chosen(core, head, number, wanted)
    return _kept(core, logs, wanted.tail)


async def chosen(core: Core, head: Head, number: int, wanted: Wanted) -> tuple[KeptLogs, list[KeptLog]]:
    """The kept logs that are wanted of an execution, and the index of all. Raises ConflictError, NotFoundError, UnavailableError."""
    index = await read_kept(core.objects, head.id, number)
    if index is None:
        if number == head.execution and not head.state.terminal:
            raise ConflictError(f"Job '{head.id}' is {head.state}: nothing of execution {number} has written a log yet")
        raise NotFoundError("Logs of execution", f"{head.id}/{number}")
    found = [one for one in index.containers if wanted.pod in (None, one.pod) and wanted.container in (None, one.container)]
    if not found:
        there = ", ".join(f"{one.pod}/{one.container}" for one in index.containers)
        raise NotFoundError("Logs of container", f"{wanted.pod or '*'}/{wanted.container or '*'}", hint=f"kept are {there}")
    return index, found


async def _kept(core: Core, logs: list[KeptLog], tail: int | None) -> AsyncIterator[bytes]:
    for one in logs:
        data = await core.objects.get(one.key)
        if len(logs) > 1:
            yield f"==> {one.pod}/{one.container} <==\n".encode()
        if data is None:
            yield b"(this log is no longer kept)\n"
        else:
            yield await asyncio.to_thread(text_of, data, tail=tail, timestamps=one.timestamps)


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

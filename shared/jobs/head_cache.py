"""Heads that the observer has read, so that a transition costs one write and no read.

A first read waits a moment for others, so that the heads of jobs that come up together are read in one request. What is kept may be old: a
write made from it is then refused, and brings the head as it stands.
"""

from __future__ import annotations

import asyncio

from shared.jobs.model import Head
from shared.jobs.ports import JobStore

GATHER_SECONDS = 0.1
_BATCH = 100


class HeadCache:
    """Heads of jobs that have not ended, by id."""

    def __init__(self, store: JobStore, *, gather_seconds: float = GATHER_SECONDS) -> None:
        self._store = store
        self._gather_seconds = gather_seconds
        self._heads: dict[str, Head] = {}
        self._wanted: dict[str, asyncio.Future[Head | None]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def get(self, job_id: str) -> Head | None:
        """The head as it was last known, or as it stands."""
        return self._heads.get(job_id) or await self.fresh(job_id)

    async def fresh(self, job_id: str) -> Head | None:
        """The head as it stands; read together with others that are wanted now. None for an unknown job."""
        future = self._wanted.get(job_id)
        if future is None:
            future = self._wanted[job_id] = asyncio.get_running_loop().create_future()
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read())
        return await asyncio.shield(future)

    def keep(self, head: Head) -> None:
        """Remember a head; one of a job that has ended is forgotten."""
        if head.state.terminal:
            self._heads.pop(head.id, None)
        else:
            self._heads[head.id] = head

    def forget(self, job_id: str) -> None:
        """Don't keep a job's head any longer."""
        self._heads.pop(job_id, None)

    async def _read(self) -> None:
        while self._wanted:
            await asyncio.sleep(self._gather_seconds)
            batch = dict(list(self._wanted.items())[:_BATCH])
            for job_id in batch:
                del self._wanted[job_id]
            try:
                found = await self._store.heads(list(batch))
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to those who wait
                for future in batch.values():
                    if not future.done():
                        future.set_exception(error)
                continue
            for job_id, future in batch.items():
                head = found.get(job_id)
                if head is not None:
                    self.keep(head)
                if not future.done():
                    future.set_result(head)

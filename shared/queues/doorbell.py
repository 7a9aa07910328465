"""Doorbells: messages that say "look". They carry an id and a kind, never truth, so they may be lost, late or doubled.

Rings of `ready` at one region that come while one is being sent are told by a single further message: it is sent after all of them were
asked for, and a dispatcher that looks into its ready list after that sees everything they stand for.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from shared.errors import UnavailableError
from shared.queues.queue import Message, Queue

log = structlog.get_logger()

READY, STOP, WAKE = "ready", "stop", "wake"
KINDS = (READY, STOP, WAKE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ring:
    """What a doorbell's message says."""

    kind: str
    job_id: str


def parse(message: Message) -> Ring | None:
    """The ring in a message; None where it is none (then it belongs with the dead letters)."""
    try:
        content = json.loads(message.body)
        kind, job_id = content["kind"], content["job_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return Ring(kind=kind, job_id=job_id) if kind in KINDS and isinstance(job_id, str) else None


class SqsDoorbell:
    """Implements `shared.jobs.ports.Doorbell` over one dispatch queue per region."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues
        self._sending: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._next: dict[str, asyncio.Task[None]] = {}

    async def ring(self, region: str, job_id: str, *, kind: str = READY, delay: float = 0.0, group: str | None = None) -> None:
        """Send a ring, or join the next one that is sent. Never raises."""
        if kind != READY or delay > 0:
            await self._send(region, job_id, kind, delay, group)
            return
        if region not in self._next:
            self._next[region] = asyncio.create_task(self._send_next(region, job_id, group))
        await asyncio.shield(self._next[region])

    async def _send_next(self, region: str, job_id: str, group: str | None) -> None:
        """Send when the one before has been sent. Whoever rings from then on needs another one."""
        async with self._sending[region]:
            del self._next[region]
            await self._send(region, job_id, READY, 0.0, group)

    async def _send(self, region: str, job_id: str, kind: str, delay: float, group: str | None) -> None:
        queue = self._queues.get(region)
        if queue is None:
            log.warning("no dispatch queue", region=region, job=job_id)
            return
        try:
            await queue.send(json.dumps({"kind": kind, "job_id": job_id}), delay=delay, group=group)
        except UnavailableError as error:
            log.warning("doorbell not rung; the sweeper will", region=region, job=job_id, error=str(error))

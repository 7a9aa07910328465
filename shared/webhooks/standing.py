"""Webhooks as they stand: what is sent must not follow a record that was read when the delivery was queued, minutes ago perhaps."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.clock import Clock
from shared.store.webhooks import Webhooks
from shared.webhooks.model import Webhook

FRESH: Final = timedelta(seconds=1)
"""How old a record may be by which something is sent. A busy endpoint costs a read in that time, whatever is sent to it."""
_KNOWN: Final = 5000


@dataclass(frozen=True, slots=True)
class _Read:
    task: asyncio.Task[Webhook | None]
    begun_at: datetime


class Standing:
    """Reads the records of webhooks; those who ask at once read once."""

    def __init__(self, webhooks: Webhooks, clock: Clock) -> None:
        self._webhooks = webhooks
        self._clock = clock
        self._known: OrderedDict[str, _Read] = OrderedDict()

    async def of(self, webhook: Webhook) -> Webhook | None:
        """A webhook as it stood a second ago at most; None where it was deleted. Raises UnavailableError."""
        now = self._clock.now()
        read = self._known.get(webhook.id)
        if read is None or now - read.begun_at >= FRESH or _failed(read.task):
            read = self._known[webhook.id] = _Read(asyncio.create_task(self._webhooks.current(webhook)), now)
            self._known.move_to_end(webhook.id)
            while len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return await asyncio.shield(read.task)

    async def anew(self, webhook: Webhook) -> Webhook | None:
        """A webhook by a read that begins now: for what can't be taken back. Raises UnavailableError."""
        self._known.pop(webhook.id, None)
        return await self.of(webhook)


def _failed(task: asyncio.Task[Webhook | None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)

"""From the table's stream to the queue `events`: which events are told to anybody, and a message for each of those."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import structlog

from shared.aws import Aws
from shared.jobs.model import Event
from shared.queues.events import body_of
from shared.queues.queue import Queue
from shared.settings import Settings
from shared.store.table import Table
from shared.store.totals import WEBHOOKS, Totals
from shared.store.webhooks import Webhooks
from shared.webhooks.events import TOLD

log = structlog.get_logger()

SERVICES: Final = ("dynamodb", "sqs")


class Relay:
    """Passes events on. Nothing is kept from one batch to the next: whoever subscribes is read after the events happened, so that no
    webhook that was there before an event is missed.

    Cost of a batch with events that can be told: one read; where there are webhooks at all, two queries for each namespace.
    """

    def __init__(self, *, queue: Queue, webhooks: Webhooks, totals: Totals) -> None:
        self._queue = queue
        self._webhooks = webhooks
        self._totals = totals

    async def pass_on(self, events: Sequence[Event]) -> int:
        """Send a message for each event that somebody subscribes to; returns how many. Raises UnavailableError; then all come again."""
        told = [event for event in events if event.type in TOLD]
        if not told or not (await self._totals.of([WEBHOOKS]))[WEBHOOKS]:
            return 0
        by_namespace: defaultdict[str | None, list[Event]] = defaultdict(list)
        for event in told:
            by_namespace[event.namespace].append(event)
        sent = 0
        for namespace, those in by_namespace.items():
            wanted = await self._wanted(namespace, those)
            await self._queue.send_all([body_of(event) for event in wanted], group=namespace)
            sent += len(wanted)
        if sent:
            log.info("events passed on", count=sent)
        return sent

    async def _wanted(self, namespace: str | None, events: Sequence[Event]) -> Sequence[Event]:
        """Those that a webhook subscribes to which was there when they happened."""
        if namespace is None:
            return events  # of a release that didn't write it; whoever makes the deliveries reads it from the job
        webhooks = await self._webhooks.concerned(namespace)
        return [
            event for event in events if any(TOLD[event.type] in webhook.events and webhook.created_at <= event.at for webhook in webhooks)
        ]


async def build(settings: Settings, aws: Aws) -> Relay:
    """The relay over the clients of the control region. Raises NotFoundError where the queue is missing (bootstrap makes it)."""
    table = Table(aws.dynamodb, settings.table)
    return Relay(queue=await Queue.open(aws.sqs, settings.events_queue), webhooks=Webhooks(table), totals=Totals(table))

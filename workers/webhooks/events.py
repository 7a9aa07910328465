"""Messages of the queue `events` become deliveries. When a message is done with, its deliveries stand in the table."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum

import structlog

from shared.errors import FleetError, InvalidError
from shared.queues.dead_letters import bury
from shared.queues.events import EventMessage, parse
from shared.queues.queue import Message, Queue
from shared.webhooks.fanout import Concerned, Fanout

log = structlog.get_logger()


class Outcome(StrEnum):
    """What became of a message."""

    TOLD = "told"  # its deliveries stand
    DEAD = "dead"  # it means nothing; among the dead letters
    LEFT = "left"  # to be tried again


class EventHandler:
    """Handles messages; those of one job together, since one look tells all of it."""

    def __init__(self, *, fanout: Fanout, dead_letters: Queue) -> None:
        self._fanout = fanout
        self._dead_letters = dead_letters

    async def handle_all(self, messages: Sequence[Message]) -> list[Outcome]:
        """Handle messages side by side. Never raises."""
        outcomes: dict[int, Outcome] = {}
        by_job: defaultdict[str, list[tuple[int, EventMessage]]] = defaultdict(list)
        for place, message in enumerate(messages):
            try:
                event = parse(message)
            except InvalidError as invalid:
                outcomes[place] = await self._bury(message, str(invalid))
            else:
                by_job[event.job_id].append((place, event))

        concerned = self._fanout.concerned()

        async def tell(job_id: str, those: Sequence[tuple[int, EventMessage]]) -> None:
            told = await self._tell(job_id, {event.number for _, event in those}, concerned)
            for place, event in those:
                unknown = f"job {job_id} has no event {event.number}"
                outcomes[place] = await self._bury(messages[place], unknown) if told is Outcome.DEAD else told

        await asyncio.gather(*(tell(job_id, those) for job_id, those in by_job.items()))
        return [outcomes[place] for place in range(len(messages))]

    async def _tell(self, job_id: str, numbers: set[int], concerned: Concerned) -> Outcome:
        try:
            found = await self._fanout.tell(job_id, numbers, concerned)
        except FleetError as error:
            log.warning("events left for another try", job=job_id, error=str(error))
            return Outcome.LEFT
        except Exception:
            log.exception("events not handled", job=job_id)
            return Outcome.LEFT
        return Outcome.TOLD if found else Outcome.DEAD

    async def _bury(self, message: Message, reason: str) -> Outcome:
        return Outcome.DEAD if await bury(self._dead_letters, message, reason) else Outcome.LEFT

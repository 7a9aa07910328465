"""Dead letters: what no worker could handle, kept until somebody redrives or discards it. Nothing here loses a message.

A message is found by receiving it and is then out of sight for a short while; a redrive sends it to its queue first and deletes it after,
so that a crash between leaves it twice rather than not at all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any

import structlog

from shared.errors import NotFoundError, UnavailableError
from shared.queues.queue import Message, Queue
from shared.settings import Settings, dead_letter_queue

log = structlog.get_logger()

_LOOK_SECONDS = 5
_LIMIT = 1000
_LONGEST_REASON = 256
"""Characters of an attribute that says why."""


class DeadLetters:
    """The dead-letter queues of the fleet, by the name of the queue that they belong to."""

    def __init__(self, client: Any, settings: Settings) -> None:
        self._client = client
        self._names = settings.queues()

    async def queues(self) -> dict[str, int]:
        """Each queue's name, and about how many dead letters it has."""
        return {name: await (await self._dead(name)).count() for name in self._names}

    async def peek(self, name: str, *, limit: int = 100) -> list[Message]:
        """Dead letters of a queue, oldest first as far as SQS tells; they stay where they are."""
        dead = await self._dead(name)
        found = [message async for message in self._each(dead, limit)]
        await dead.extend(found, 0)
        return sorted(found, key=lambda message: (message.sent_at is not None, message.sent_at, message.id))

    async def show(self, name: str, message_id: str) -> Message:
        """One dead letter. Raises NotFoundError."""
        for message in await self.peek(name, limit=_LIMIT):
            if message.id == message_id:
                return message
        raise NotFoundError("Dead letter", message_id)

    async def redrive(self, name: str, message_ids: Collection[str] | None) -> list[str]:
        """Send dead letters (None: all) back to their queue; returns their ids. Raises NotFoundError for an unknown one."""
        target = await Queue.open(self._client, name)

        async def send(message: Message) -> None:
            await target.send(message.body, group=message.attributes.get("group"), attributes=_without_reason(message))

        return await self._take(name, message_ids, send)

    async def discard(self, name: str, message_ids: Collection[str] | None) -> list[str]:
        """Delete dead letters (None: all) for ever; returns their ids. Raises NotFoundError for an unknown one."""

        async def nothing(_: Message) -> None:
            return None

        return await self._take(name, message_ids, nothing)

    async def _take(self, name: str, message_ids: Collection[str] | None, act: Any) -> list[str]:
        dead = await self._dead(name)
        found = [message async for message in self._each(dead, _LIMIT)]
        chosen = [message for message in found if message_ids is None or message.id in message_ids]
        missing = sorted(set(message_ids or ()) - {message.id for message in chosen})
        await dead.extend([message for message in found if missing or message not in chosen], 0)
        if missing:
            raise NotFoundError("Dead letter", ", ".join(missing))
        for message in chosen:
            await act(message)
            await dead.delete([message])
        return [message.id for message in chosen]

    async def _each(self, dead: Queue, limit: int) -> AsyncIterator[Message]:
        """Every message once, until a receive brings nothing new."""
        seen: set[str] = set()
        empty = 0
        while len(seen) < limit and empty < 2:
            received = await dead.receive(min(10, limit - len(seen)), wait_seconds=0, visibility=_LOOK_SECONDS + len(seen) // 10)
            fresh = [message for message in received if message.id not in seen]
            empty = 0 if fresh else empty + 1
            for message in fresh:
                seen.add(message.id)
                yield message

    async def _dead(self, name: str) -> Queue:
        if name not in self._names:
            raise NotFoundError("Queue", name, hint=f"the queues are {', '.join(self._names)}")
        return await Queue.open(self._client, dead_letter_queue(name))


def _without_reason(message: Message) -> dict[str, str]:
    return {name: value for name, value in message.attributes.items() if name not in {"reason", "group"}}


async def bury(dead: Queue, message: Message, reason: str) -> bool:
    """Put a message that means nothing among the dead letters, with the reason. False where that can't be done now: it is to come again."""
    readable = "".join(character if character.isprintable() else "?" for character in reason)[:_LONGEST_REASON]
    try:
        await dead.send(message.body, attributes={"reason": readable, "message_id": message.id})
    except UnavailableError as error:
        log.warning("message left for another try", message=message.id, error=str(error))
        return False
    log.warning("message means nothing", message=message.id, reason=readable)
    return True

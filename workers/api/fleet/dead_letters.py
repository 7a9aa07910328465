"""Rejections and dead letters: what did not become a job, why, and what to do about it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from shared.queues.queue import Message
from shared.store.rejections import Rejection
from workers.api.bodies import StrictRoute
from workers.api.dependencies import Administrator, CoreOf
from workers.api.errors import answers
from workers.api.fleet.schemas import (
    DeadLetter,
    DeadLetterChoice,
    DeadLettersAnswer,
    DeadLettersMovedAnswer,
    QueueCount,
    QueuesAnswer,
    RejectionsAnswer,
)

Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(max_length=2048)]


async def _all_namespaces(caller: Administrator) -> None:
    """A message that became no job belongs to no namespace that anybody could be bound to."""
    caller.require_all_namespaces("what became no job")


router = APIRouter(tags=["Fleet: rejections and dead letters"], route_class=StrictRoute, dependencies=[Depends(_all_namespaces)])


@router.get("/rejections", responses=answers(401, 403, 422, 429, 503))
async def list_rejections(core: CoreOf, limit: Limit = 100, cursor: Cursor = None) -> RejectionsAnswer:
    """Refused messages, newest first."""
    page = await core.rejections.page(limit=limit, cursor=cursor)
    return RejectionsAnswer(rejections=page.rejections, next_cursor=page.cursor)


@router.get("/rejections/{rejection_id}", responses=answers(401, 403, 404, 422, 429, 503))
async def get_rejection(rejection_id: str, core: CoreOf) -> Rejection:
    """Why a message was refused; the id is that of its SQS message."""
    return await core.rejections.get(rejection_id)


@router.get("/dead-letters", responses=answers(401, 403, 422, 429, 503))
async def list_queues(core: CoreOf) -> QueuesAnswer:
    """The queues, and about how many dead letters each has."""
    counts = await core.dead_letters.queues()
    return QueuesAnswer(queues=[QueueCount(queue=name, dead_letters=count) for name, count in counts.items()])


@router.get("/dead-letters/{queue}", responses=answers(401, 403, 404, 422, 429, 503))
async def list_dead_letters(queue: str, core: CoreOf, limit: Limit = 100) -> DeadLettersAnswer:
    """Dead letters of a queue. Looking at them hides them from others for some seconds."""
    found = await core.dead_letters.peek(queue, limit=limit)
    return DeadLettersAnswer(queue=queue, dead_letters=[_letter(queue, message) for message in found])


@router.get("/dead-letters/{queue}/{message_id}", responses=answers(401, 403, 404, 422, 429, 503))
async def get_dead_letter(queue: str, message_id: str, core: CoreOf) -> DeadLetter:
    """One dead letter."""
    return _letter(queue, await core.dead_letters.show(queue, message_id))


@router.post("/dead-letters/{queue}/redrive", responses=answers(401, 403, 404, 413, 422, 429, 503))
async def redrive_dead_letters(queue: str, body: DeadLetterChoice, core: CoreOf) -> DeadLettersMovedAnswer:
    """Send dead letters back to their queue."""
    moved = await core.dead_letters.redrive(queue, body.message_ids)
    return DeadLettersMovedAnswer(queue=queue, count=len(moved), message_ids=moved)


@router.post("/dead-letters/{queue}/discard", responses=answers(401, 403, 404, 413, 422, 429, 503))
async def discard_dead_letters(queue: str, body: DeadLetterChoice, core: CoreOf) -> DeadLettersMovedAnswer:
    """Delete dead letters for ever."""
    gone = await core.dead_letters.discard(queue, body.message_ids)
    return DeadLettersMovedAnswer(queue=queue, count=len(gone), message_ids=gone)


def _letter(queue: str, message: Message) -> DeadLetter:
    return DeadLetter(
        id=message.id,
        queue=queue,
        sent_at=message.sent_at,
        receive_count=message.receive_count,
        attributes=dict(message.attributes),
        body=message.body,
    )

"""One message of the submissions queue: a job, or a rejection that its producer can read.

A message that can never become a job is recorded first, then put among the dead letters, and only then deleted; a crash in between repeats
steps that bear it. A message that can't be handled now is left: it comes again, and after five times SQS puts it among the dead letters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import structlog

from shared.aws import Aws
from shared.clock import Clock
from shared.clusters.json_bodies import THREAD_BYTES, read_body
from shared.errors import FleetError, ForbiddenError, InvalidError, Problem, TooLargeError
from shared.jobs.submission import KeyTakenError, Submission
from shared.policy.gate import Gate
from shared.queues.queue import Message, Queue
from shared.queues.submissions import MAX_OBJECT_BYTES, SCOPE, S3Location, S3Pointer, SubmissionMessage, job_message_of, message_of
from shared.settings import Settings, dead_letter_queue
from shared.store.objects import S3Objects
from shared.store.rejections import Rejection, Rejections, excerpt, told
from workers import assembly, submitting
from workers.ingest.references import read_reference

log = structlog.get_logger()

M = TypeVar("M")

Refusal = InvalidError | ForbiddenError | TooLargeError | KeyTakenError
_REFUSALS = (InvalidError, ForbiddenError, TooLargeError, KeyTakenError)
"""What a message can do nothing about by coming again."""

_MAX_REASON = 256
_MAX_ATTRIBUTES = 8
"""SQS takes ten attributes a message; two are ours."""


class Outcome(StrEnum):
    """What became of a message."""

    ACCEPTED = "accepted"  # a job, new or the same as before
    REJECTED = "rejected"  # recorded, and among the dead letters
    LEFT = "left"  # to be tried again


class Ingest:
    """Handles messages of one submissions queue."""

    def __init__(
        self,
        *,
        queue: str,
        dead_letters: Queue,
        submission: Submission,
        gate: Gate,
        rejections: Rejections,
        objects: S3Objects,
        clock: Clock,
    ) -> None:
        self._queue = queue
        self._dead_letters = dead_letters
        self._submission = submission
        self._gate = gate
        self._rejections = rejections
        self._objects = objects
        self._clock = clock

    async def handle_all(self, messages: Sequence[Message]) -> list[Outcome]:
        """Handle messages all at once, so that the doorbells of a batch are rung together."""
        return list(await asyncio.gather(*(self.handle(message) for message in messages)))

    async def handle(self, message: Message) -> Outcome:
        """Handle one message. Never raises."""
        try:
            return await self._handle(message)
        except FleetError as error:
            log.warning("message left for another try", message=message.id, received=message.receive_count, error=str(error))
        except Exception:
            log.exception("message not handled", message=message.id, received=message.receive_count)
        return Outcome.LEFT

    async def _handle(self, message: Message) -> Outcome:
        body = message.body.encode(errors="surrogatepass")
        pointed: bytes | None = None
        try:
            document = await read_body(body)
            wanted = await self._told(message_of, document)
            if isinstance(wanted, S3Pointer):
                pointed = await self._pointed(wanted.s3)
                wanted = await self._told(job_message_of, await read_body(pointed))
            await self._submit(wanted, message)
        except _REFUSALS as refusal:
            reference = await read_reference(body) or (await read_reference(pointed) if pointed is not None else None)
            await self._reject(message, refusal, reference)
            return Outcome.REJECTED
        return Outcome.ACCEPTED

    async def _told(self, read: Callable[[Any], M], document: Any) -> M:
        """The message in a document; where it is none, all that is wrong with it, its manifest included."""
        try:
            return read(document)
        except InvalidError as invalid:
            told = [problem.pointer for problem in invalid.problems]
            further = await asyncio.to_thread(submitting.further_problems, self._submission, self._gate, document, told=told)
            raise InvalidError([*invalid.problems, *further]) from None

    async def _submit(self, wanted: SubmissionMessage, message: Message) -> None:
        request = wanted.request(
            scope=SCOPE,
            idempotency_key=wanted.idempotency_key or message.id,
            submitted_by=f"{SCOPE}:{message.sender}" if message.sender else None,
        )
        if len(message.body) > THREAD_BYTES:
            await self._gate.prepare(request)
        try:
            submitted = await self._submission.submit(request)
        finally:
            self._gate.forget(request)
        log.info("accepted", message=message.id, job=submitted.head.id, created=submitted.created)

    async def _pointed(self, place: S3Location) -> bytes:
        """The object that a message points to."""
        data = await self._objects.get(place.key, bucket=place.bucket, limit=MAX_OBJECT_BYTES)
        if data is None:
            raise InvalidError([Problem(pointer="/s3", value=f"s3://{place.bucket}/{place.key}", rule="there must be such an object")])
        if len(data) > MAX_OBJECT_BYTES:
            raise TooLargeError("the object at /s3", len(data), MAX_OBJECT_BYTES, pointer="/s3")
        return data

    async def _reject(self, message: Message, refusal: Refusal, reference: str | None) -> None:
        reason = _reason(refusal)
        problems = told(refusal.problems)
        rejection = Rejection(
            id=message.id,
            reason=reason,
            problems=problems,
            message_id=message.id,
            queue=self._queue,
            reference=reference,
            rejected_at=self._clock.now(),
            excerpt=excerpt(message.body),
        )
        await self._rejections.put(rejection)
        kept = dict(list(message.attributes.items())[:_MAX_ATTRIBUTES])
        await self._dead_letters.send(message.body, attributes=kept | {"reason": reason, "message_id": message.id})
        log.info("rejected", message=message.id, reason=reason, problems=len(problems))


def _reason(refusal: Refusal) -> str:
    """One line, of characters that an SQS attribute takes."""
    text = str(refusal)
    if isinstance(refusal, InvalidError) and len(refusal.problems) > 1:
        text = f"{len(refusal.problems)} rules are broken; the first: {refusal.problems[0]}"
    readable = "".join(character if character.isprintable() else "?" for character in text)
    return readable if len(readable) <= _MAX_REASON else f"{readable[: _MAX_REASON - 3]}..."


async def build(settings: Settings, aws: Aws) -> Ingest:
    """Ingest over the clients of the control region.

    Raises PolicyFileError, which is told before AWS is asked anything, and NotFoundError where a queue is missing (bootstrap makes it).
    """
    gate = submitting.gate(settings)
    core = await assembly.assemble(settings, aws)
    way_in = submitting.way_in(core, gate)
    name = settings.submissions_queue
    return Ingest(
        queue=name,
        dead_letters=await Queue.open(aws.sqs, dead_letter_queue(name)),
        submission=way_in.submission,
        gate=way_in.gate,
        rejections=Rejections(core.table),
        objects=core.objects,
        clock=core.clock,
    )

"""Ingest on AWS Lambda, behind an event source mapping with `ReportBatchItemFailures`: what isn't named as failed, Lambda deletes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import cache
from typing import Any

from shared.aws import connect
from shared.logging import configure
from shared.queues.queue import Message
from shared.settings import Settings
from workers.ingest.ingest import Ingest, Outcome, build

_stack = AsyncExitStack()


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, list[dict[str, str]]]:
    """Handle a batch of SQS records."""
    loop, ingest = _started()
    return loop.run_until_complete(answer(ingest, event))


async def answer(ingest: Ingest, event: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """The partial batch response: the messages that are to come again."""
    messages = [message_of_record(record) for record in event.get("Records", ())]
    outcomes = await ingest.handle_all(messages)
    left = [message.id for message, outcome in zip(messages, outcomes, strict=True) if outcome is Outcome.LEFT]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}


def message_of_record(record: Mapping[str, Any]) -> Message:
    """A message as Lambda hands it over."""
    system = record.get("attributes", {})
    sent = system.get("SentTimestamp")
    return Message(
        id=record["messageId"],
        body=record["body"],
        receipt=record.get("receiptHandle", ""),
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=datetime.fromtimestamp(int(sent) / 1000, UTC) if sent else None,
        sender=system.get("SenderId"),
        attributes={name: value.get("stringValue", "") for name, value in record.get("messageAttributes", {}).items()},
    )


@cache
def _started() -> tuple[asyncio.AbstractEventLoop, Ingest]:
    """The container's one event loop and what lives in it, made at the first batch."""
    settings = Settings()
    configure(settings.log_level, worker="ingest")
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    async def start() -> Ingest:
        aws = await _stack.enter_async_context(connect(settings.control_region, "dynamodb", "sqs", "s3"))
        return await build(settings, aws)

    return loop, loop.run_until_complete(start())

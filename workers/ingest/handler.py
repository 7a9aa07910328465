"""Ingest on AWS Lambda, behind an event source mapping with `ReportBatchItemFailures`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from shared.aws import connect
from shared.settings import Settings
from workers.ingest.ingest import Ingest, Outcome, build
from workers.lambdas import Answer, Container, failures, messages_of


async def _start(settings: Settings, stack: AsyncExitStack) -> Ingest:
    return await build(settings, await stack.enter_async_context(connect(settings.control_region, "dynamodb", "sqs", "s3")))


_container = Container(_start, worker="ingest")


def handler(event: Mapping[str, Any], _context: Any) -> Answer:
    """Handle a batch of SQS records."""
    return _container.run(lambda ingest: answer(ingest, event))


async def answer(ingest: Ingest, event: Mapping[str, Any]) -> Answer:
    """The partial batch response: the messages that are to come again."""
    messages = messages_of(event)
    return failures(messages, await ingest.handle_all(messages), left=Outcome.LEFT)

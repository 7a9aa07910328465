"""The cost worker on AWS Lambda: behind the queue `tasks` with `ReportBatchItemFailures`, or called by a schedule with a task itself.

A schedule of ten minutes is enough for windows of an hour. What an invocation has no time for is done by the next.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from shared.aws import connect
from shared.errors import UnavailableError
from shared.queues.queue import Message
from shared.settings import Settings
from workers.costs.build import SERVICES, build
from workers.costs.work import CostWork, Outcome
from workers.lambdas import SECONDS, Answer, Container, failures, messages_of, seconds_left

MARGIN_SECONDS: Final = 20.0
"""What is left of an invocation when no further report is begun."""


async def _start(settings: Settings, stack: AsyncExitStack) -> CostWork:
    return await build(settings, await stack.enter_async_context(connect(settings.control_region, *SERVICES)))


_container = Container(_start, worker="costs")


def handler(event: Mapping[str, Any], context: Any) -> Answer:
    """Handle a batch of SQS records, or the task of a schedule."""
    return _container.run(lambda work: answer(work, event, seconds=seconds_left(context, margin=MARGIN_SECONDS)))


async def answer(work: CostWork, event: Mapping[str, Any], *, seconds: float = SECONDS) -> Answer:
    """The partial batch response: the messages that are to come again.

    Raises UnavailableError for a schedule's task that isn't done, so that Lambda tries it again.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    work.enough = lambda: loop.time() >= end
    if "Records" in event:
        messages = messages_of(event)
        return failures(messages, await work.handle_all(messages), left=Outcome.LEFT)
    (outcome,) = await work.handle_all([Message(id="schedule", body=json.dumps(dict(event)), receipt="")])
    if outcome is Outcome.LEFT:
        raise UnavailableError("the reports are not all made; the log says why")
    return failures([], [], left=Outcome.LEFT)

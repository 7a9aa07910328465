"""The webhook worker on AWS Lambda: two functions over the same parts as the loop, beside that of the relay (`relay_handler`).

| handler | event source |
|---|---|
| `handler` | the queue `events`, with `ReportBatchItemFailures` |
| `sweep_handler` | a schedule of a minute: retries fall on whole minutes at the latest |

Deliveries are sent within the invocation that made them, for as long as it may take; what isn't sent by then is given back, and swept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from typing import Any, Final

from shared.aws import connect
from shared.settings import Settings
from shared.webhooks.lanes import Lanes
from workers.lambdas import Answer, Container, failures, messages_of, seconds_left
from workers.webhooks.build import SERVICES, Parts, build
from workers.webhooks.events import Outcome

MARGIN_SECONDS: Final = 12.0
"""What is left of an invocation when nothing more is begun: an attempt takes 10 s."""
EACH: Final = 2
"""Attempts at a time to one endpoint in a container that makes deliveries: there are as many containers as there are batches at a time."""
AGAIN_SECONDS: Final = 2.0
"""How often a sweep looks again while something is being sent: what hangs must not hold up what comes due meanwhile."""


async def _start(settings: Settings, stack: AsyncExitStack) -> Parts:
    return await build(settings, await stack.enter_async_context(connect(settings.control_region, *SERVICES)))


async def _start_delivering(settings: Settings, stack: AsyncExitStack) -> Parts:
    aws = await stack.enter_async_context(connect(settings.control_region, *SERVICES))
    return await build(settings, aws, lanes=Lanes(each=EACH))


_container = Container(_start, worker="webhooks")
_delivering = Container(_start_delivering, worker="webhooks")


def handler(event: Mapping[str, Any], context: Any) -> Answer:
    """Make the deliveries of a batch of SQS records, and send them."""
    return _delivering.run(lambda parts: deliver(parts, event, seconds=seconds_left(context, margin=MARGIN_SECONDS)))


def sweep_handler(_event: Mapping[str, Any], context: Any) -> dict[str, str | None]:
    """Send what is due, again and again until the invocation's time is over; says when the next is due."""
    return _container.run(lambda parts: sweep(parts, seconds=seconds_left(context, margin=MARGIN_SECONDS)))


async def deliver(parts: Parts, event: Mapping[str, Any], *, seconds: float) -> Answer:
    """The partial batch response: the messages that are to come again."""
    messages = messages_of(event)
    outcomes = await parts.handler.handle_all(messages)
    await _finish(parts, seconds)
    return failures(messages, outcomes, left=Outcome.LEFT)


async def sweep(parts: Parts, *, seconds: float) -> dict[str, str | None]:
    """Sweep while something is due or being sent."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        following = await parts.sweeper.sweep()
        idle = await _idle(parts, min(AGAIN_SECONDS, end - loop.time()))
        if loop.time() >= end or (idle and (following is None or following > datetime.now(UTC))):
            await parts.courier.give_back(grace_seconds=MARGIN_SECONDS - 2.0)
            return {"next": following.isoformat() if following else None}


async def _finish(parts: Parts, seconds: float) -> None:
    """Send what has been taken on, for a while; the container may be frozen after that, so what waits is given back."""
    await _idle(parts, seconds)
    await parts.courier.give_back(grace_seconds=MARGIN_SECONDS - 2.0)


async def _idle(parts: Parts, seconds: float) -> bool:
    """Whether all that was taken on is done within some seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):
            await parts.courier.lanes.idle()
            return True
    return False

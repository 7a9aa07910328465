"""What consumers on AWS Lambda share: a container's one event loop, SQS records as messages, answers that name what is to come again.

An event source mapping with `ReportBatchItemFailures` takes what isn't named in the answer as done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from shared.logging import configure
from shared.queues.queue import Message
from shared.settings import Settings, load

T = TypeVar("T")
R = TypeVar("R")

Answer = dict[str, list[dict[str, str]]]

SECONDS: Final = 60.0
"""How long an invocation may take where nobody says it: without Lambda around it."""


class Container(Generic[T]):
    """The event loop of a container and what lives in it, made at its first call and then kept."""

    def __init__(self, start: Callable[[Settings, AsyncExitStack], Awaitable[T]], *, worker: str) -> None:
        self._start = start
        self._worker = worker
        self._stack = AsyncExitStack()
        self._made: tuple[asyncio.AbstractEventLoop, T] | None = None

    def run(self, work: Callable[[T], Awaitable[R]]) -> R:
        """Do something with what lives here."""
        loop, living = self._living()

        async def working() -> R:
            return await work(living)

        return loop.run_until_complete(working())

    def living(self) -> T:
        """What lives here, for whoever runs the loop himself; it is this thread's."""
        return self._living()[1]

    def close(self) -> None:
        """End all of it. Lambda never does: it freezes a container, and one day forgets it."""
        if self._made is not None:
            (loop, _), self._made = self._made, None
            self._end(loop)

    def _living(self) -> tuple[asyncio.AbstractEventLoop, T]:
        if self._made is None:
            settings = load(Settings)
            configure(settings.log_level, worker=self._worker)
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)

            async def start() -> T:
                return await self._start(settings, self._stack)

            try:
                self._made = loop, loop.run_until_complete(start())
            except BaseException:
                # The next call begins anew, and what was half made must not pile up until then.
                self._end(loop)
                raise
        return self._made

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._stack.aclose())
        finally:
            loop.close()


def messages_of(event: Mapping[str, Any]) -> list[Message]:
    """The messages of a batch of SQS records."""
    return [message_of_record(record) for record in event.get("Records", ())]


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
        attributes={name: value.get("stringValue", "") for name, value in record.get("messageAttributes", {}).items()},
    )


def failures(messages: Sequence[Message], outcomes: Sequence[T], *, left: T) -> Answer:
    """The partial batch response: the messages that are to come again."""
    return failed([message.id for message, outcome in zip(messages, outcomes, strict=True) if outcome == left])


def failed(identifiers: Sequence[str]) -> Answer:
    """The answer that names records which are to come again."""
    return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}


def seconds_left(context: Any, *, margin: float) -> float:
    """How long an invocation may work, so that `margin` seconds are left of it; a second at least. `context` is Lambda's."""
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    left = float(remaining()) / 1000 if remaining is not None else SECONDS
    return max(left - margin, 1.0)

"""What tests put between the fleet and the world: clients that note, fail or throttle, and a call that never comes back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError

from shared.jobs.model import Event, EventType


class Client:
    """An AWS client with something in front of it; what it doesn't define goes through."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class RecordingSqs(Client):
    """Notes what is sent, and how often each message was seen."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.sent: list[dict[str, Any]] = []
        self.seen: Counter[str] = Counter()

    async def send_message(self, **request: Any) -> Any:
        self.sent.append(request)
        return await self._inner.send_message(**request)

    async def receive_message(self, **request: Any) -> Any:
        answer = await self._inner.receive_message(**request)
        self.seen.update(message["MessageId"] for message in answer.get("Messages", []))
        return answer


class DumbSqs(Client):
    """Sends nothing for the first `times` tries."""

    def __init__(self, inner: Any, *, times: int) -> None:
        super().__init__(inner)
        self.left = times

    async def send_message(self, **request: Any) -> Any:
        if self.left > 0:
            self.left -= 1
            raise EndpointConnectionError(endpoint_url=request["QueueUrl"])
        return await self._inner.send_message(**request)


class ThrottledDynamoDb(Client):
    """Takes `burst` transactions on any one partition key, of the table or of an index; cancels each further one `times` times first.

    It counts tries and not seconds, so that a slow machine meets as many throttles as a fast one.
    """

    KEYS = ("pk", "ready_pk", "due_pk", "state_pk", "namespace_pk")

    def __init__(self, inner: Any, *, burst: int, times: int) -> None:
        super().__init__(inner)
        self._burst = burst
        self._times = times
        self._taken: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self.throttled = 0

    async def transact_write_items(self, **request: Any) -> Any:
        wanted = [self._partitions(action) for action in request["TransactItems"]]
        full = [any(self._taken[key] >= self._burst for key in keys) for keys in wanted]
        whose = min(key for keys in wanted for key in keys if self._taken[key] == 0)
        if any(full) and self._refused[whose] < self._times:
            self._refused[whose] += 1
            self.throttled += 1
            reasons = [{"Code": "ThrottlingError" if hit else "None"} for hit in full]
            error = {"Code": "TransactionCanceledException", "Message": "Transaction cancelled"}
            raise ClientError({"Error": error, "CancellationReasons": reasons}, "TransactWriteItems")
        self._taken.update({key for keys in wanted for key in keys})
        return await self._inner.transact_write_items(**request)

    def _partitions(self, action: dict[str, Any]) -> list[str]:
        ((_, body),) = action.items()
        item = body.get("Item") or body["Key"]
        return [f"{key}={item[key]['S']}" for key in self.KEYS if key in item]


class Held:
    """A call that is held when it comes: `before` the wrapped call is made, or after, so that its effect stands and its answer is lost."""

    def __init__(self, call: Callable[..., Any], *, when: Callable[..., bool], after: bool) -> None:
        self._call = call
        self._when = when
        self._after = after
        self.armed = True
        self.reached = asyncio.Event()

    async def __call__(self, *args: Any, **options: Any) -> Any:
        if not (self.armed and self._when(*args, **options)):
            return await self._call(*args, **options)
        self.armed = False
        if self._after:
            await self._call(*args, **options)
        self.reached.set()
        return await asyncio.Event().wait()


def gapless(events: list[Event]) -> bool:
    """Whether the numbers of a history are 1, 2, 3, …"""
    return [event.number for event in events] == list(range(1, len(events) + 1))


def counted(events: list[Event]) -> Counter[EventType]:
    """How often each type stands in a history."""
    return Counter(event.type for event in events)

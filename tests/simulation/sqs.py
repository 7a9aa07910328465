"""Standard queues in memory under virtual time, behind a client with aiobotocore's method names.

A message is out of sight while somebody has it and comes back when its visibility ends; after `MAX_RECEIVES` it goes to the dead letters.
Order is kept for nobody, and now and then a message is late or is given to two receivers.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from shared.settings import dead_letter_queue
from shared.store.bootstrap import MAX_RECEIVES
from tests.simulation.faults import COMMON, Fault, Gate

DEFAULT_VISIBILITY = 60
_RECEIVE = (Fault.FROZEN, Fault.LOST, Fault.REFUSED, Fault.CRASH_BEFORE, Fault.CRASH_AFTER)


@dataclass(kw_only=True)
class _Message:
    id: str
    body: str
    attributes: dict[str, Any]
    sent_at: float
    visible_at: float
    receipt: str = ""
    receives: int = 0


@dataclass(kw_only=True)
class _Queue:
    name: str
    messages: dict[str, _Message] = field(default_factory=dict)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)


class Queues:
    """The service."""

    def __init__(self, names: list[str], *, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self._loop = loop
        self._chance = chance
        self._sent = 0
        self._queues = {name: _Queue(name=name) for one in names for name in (one, dead_letter_queue(one))}

    def find(self, url: str) -> _Queue:
        """The queue of a name or URL. Raises the client's error for an unknown one."""
        name = url.rpartition("/")[2]
        if name not in self._queues:
            raise ClientError({"Error": {"Code": "AWS.SimpleQueueService.NonExistentQueue", "Message": name}}, "GetQueueUrl")
        return self._queues[name]

    def send(self, queue: _Queue, body: str, attributes: dict[str, Any], delay: float) -> str:
        """Put a message into a queue."""
        self._sent += 1
        now = self._loop.time()
        message = _Message(id=f"m{self._sent}", body=body, attributes=attributes, sent_at=now, visible_at=now + delay)
        queue.messages[message.id] = message
        self._loop.call_later(delay, self._wake, queue)
        return message.id

    def receive(self, queue: _Queue, limit: int, visibility: float, *, twice: bool) -> list[dict[str, Any]]:
        """Some of the visible messages; `twice` leaves them in sight."""
        now = self._loop.time()
        visible = [message for message in queue.messages.values() if message.visible_at <= now]
        self._chance.shuffle(visible)
        found = []
        for message in visible:
            if len(found) == limit:
                break
            if message.receives >= MAX_RECEIVES:
                del queue.messages[message.id]
                self._queues[dead_letter_queue(queue.name)].messages[message.id] = message
                continue
            message.receives += 1
            message.receipt = f"{message.id}:{message.receives}"
            self.hide(queue, message.receipt, 0.0 if twice else visibility)
            found.append(
                {
                    "MessageId": message.id,
                    "Body": message.body,
                    "ReceiptHandle": message.receipt,
                    "MessageAttributes": message.attributes,
                    "Attributes": {"ApproximateReceiveCount": str(message.receives), "SentTimestamp": str(int(message.sent_at * 1000))},
                }
            )
        return found

    def hide(self, queue: _Queue, receipt: str, seconds: float) -> None:
        """Keep a message out of sight. An old receipt has no effect, as with real standard queues it need not have."""
        message = queue.messages.get(receipt.partition(":")[0])
        if message is not None and message.receipt == receipt:
            message.visible_at = self._loop.time() + seconds
            self._loop.call_later(seconds, self._wake, queue)

    @staticmethod
    def delete(queue: _Queue, receipt: str) -> None:
        """Remove a message by its newest receipt."""
        message = queue.messages.get(receipt.partition(":")[0])
        if message is not None and message.receipt == receipt:
            del queue.messages[message.id]

    def redrive(self, queue: _Queue) -> None:
        """An operator sends the dead letters of a queue back to it."""
        dead = self._queues[dead_letter_queue(queue.name)]
        for message in dead.messages.values():
            self.send(queue, message.body, message.attributes, 0.0)
        dead.messages.clear()

    def dead_letters(self) -> list[str]:
        """The bodies of all dead letters."""
        return [message.body for queue in self._queues.values() if queue.name.endswith("-dead") for message in queue.messages.values()]

    async def wait(self, queue: _Queue, seconds: float) -> None:
        """Wait until something in a queue may have come into sight."""
        now = self._loop.time()
        if any(message.visible_at <= now for message in queue.messages.values()):
            return
        future: asyncio.Future[None] = self._loop.create_future()
        queue.waiting.append(future)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            pass
        finally:
            if future in queue.waiting:
                queue.waiting.remove(future)

    def _wake(self, queue: _Queue) -> None:
        waiting, queue.waiting = queue.waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class SqsClient:
    """What the queues call, with the faults of the way to them."""

    def __init__(self, queues: Queues, gate: Gate) -> None:
        self._queues = queues
        self._gate = gate

    async def get_queue_url(self, *, QueueName: str) -> Any:  # noqa: N803 - the names of the real client
        """GetQueueUrl; without faults, since it is asked once at the start."""
        self._queues.find(QueueName)
        return {"QueueUrl": f"https://sqs/{QueueName}"}

    async def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> Any:  # noqa: N803
        """GetQueueAttributes."""
        queue = self._queues.find(QueueUrl)
        return await self._call("GetQueueAttributes", lambda: {"Attributes": {"ApproximateNumberOfMessages": str(len(queue.messages))}})

    async def send_message(self, *, QueueUrl: str, MessageBody: str, DelaySeconds: int = 0, **more: Any) -> Any:  # noqa: N803
        """SendMessage."""
        queue = self._queues.find(QueueUrl)
        delay = float(DelaySeconds)
        if self._gate.faults.happens(Fault.DELAYED):
            delay += self._gate.faults.chance.choice((0.5, 5.0, 60.0, 300.0))
            self._gate.faults.tell(self._gate.life.name, Fault.DELAYED, MessageBody)
        return await self._call(
            f"SendMessage {queue.name} {MessageBody}",
            lambda: {"MessageId": self._queues.send(queue, MessageBody, more.get("MessageAttributes", {}), delay)},
            (*COMMON, Fault.REPEATED),
        )

    async def receive_message(
        self,
        *,
        QueueUrl: str,  # noqa: N803
        MaxNumberOfMessages: int = 1,  # noqa: N803
        WaitTimeSeconds: int = 0,  # noqa: N803
        VisibilityTimeout: int = DEFAULT_VISIBILITY,  # noqa: N803
        **_: Any,
    ) -> Any:
        """ReceiveMessage with a long poll."""
        queue = self._queues.find(QueueUrl)
        await self._gate.life.thaw()
        await self._queues.wait(queue, WaitTimeSeconds)
        twice = self._gate.faults.happens(Fault.DUPLICATE)

        def receive() -> Any:
            found = self._queues.receive(queue, MaxNumberOfMessages, VisibilityTimeout, twice=twice)
            if twice and found:
                self._gate.faults.tell(self._gate.life.name, Fault.DUPLICATE, f"{len(found)} messages")
            return {"Messages": found}

        return await self._call(f"ReceiveMessage {queue.name}", receive, _RECEIVE)

    async def delete_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803
        """DeleteMessageBatch."""
        queue = self._queues.find(QueueUrl)
        return await self._batch("DeleteMessageBatch", queue, Entries, lambda entry: self._queues.delete(queue, entry["ReceiptHandle"]))

    async def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803
        """ChangeMessageVisibilityBatch."""
        queue = self._queues.find(QueueUrl)

        def hide(entry: dict[str, Any]) -> None:
            self._queues.hide(queue, entry["ReceiptHandle"], entry["VisibilityTimeout"])

        return await self._batch("ChangeMessageVisibilityBatch", queue, Entries, hide)

    async def _batch(self, operation: str, queue: _Queue, entries: list[dict[str, Any]], act: Callable[[dict[str, Any]], None]) -> Any:
        def effect() -> Any:
            for entry in entries:
                act(entry)
            return {"Successful": [{"Id": entry["Id"]} for entry in entries]}

        return await self._call(f"{operation} {queue.name} {' '.join(entry['ReceiptHandle'] for entry in entries)}", effect)

    async def _call(self, label: str, effect: Callable[[], Any], possible: tuple[Fault, ...] = COMMON) -> Any:
        return await self._gate.call(label, effect, possible=possible, failure=_failure)


def _failure(fault: Fault) -> BaseException:
    if fault is Fault.REFUSED:
        return EndpointConnectionError(endpoint_url="https://sqs")
    return ReadTimeoutError(endpoint_url="https://sqs")

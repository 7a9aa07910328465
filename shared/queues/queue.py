"""One SQS queue: send, receive, extend, delete. Bodies are text; SQS takes 1 MiB a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import NotFoundError, UnavailableError

LONG_POLL_SECONDS = 20
BATCH = 10
MAX_DELAY_SECONDS = 900


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A received message; `receipt` stands for this receipt of it, `receive_count` tells how often it has been received.

    `sender` is the id of the IAM user or role that sent it, as SQS says and nobody else can.
    """

    id: str
    body: str
    receipt: str
    receive_count: int = 1
    sent_at: datetime | None = None
    sender: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


class Queue:
    """A queue behind an aiobotocore SQS client. Every method may raise UnavailableError."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self.url = url

    @classmethod
    async def open(cls, client: Any, name: str) -> Queue:
        """The queue of a name. Raises NotFoundError where nobody has made it."""
        try:
            answer = await client.get_queue_url(QueueName=name)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if "NonExistentQueue" in code or "QueueDoesNotExist" in code:
                raise NotFoundError("Queue", name) from error
            raise UnavailableError(f"SQS {name}: {error}") from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"SQS {name}: {error}") from error
        return cls(client, answer["QueueUrl"])

    async def send(self, body: str, *, delay: float = 0.0, group: str | None = None, attributes: Mapping[str, str] | None = None) -> str:
        """Send one message and return its id. `group` makes the queue fair: a noisy group waits behind itself."""
        request: dict[str, Any] = {"MessageBody": body}
        if delay > 0:
            request["DelaySeconds"] = min(MAX_DELAY_SECONDS, int(delay) + (delay > int(delay)))
        if group is not None:
            request["MessageGroupId"] = group
        if attributes:
            request["MessageAttributes"] = {
                name: {"DataType": "String", "StringValue": value} for name, value in attributes.items() if value
            }
        answer = await self._call("send_message", **request)
        return str(answer["MessageId"])

    async def send_all(self, bodies: Sequence[str], *, group: str | None = None) -> None:
        """Send many messages of one group, ten a request. Where this raises, some of them may have been sent."""
        extra = {"MessageGroupId": group} if group is not None else {}
        for start in range(0, len(bodies), BATCH):
            entries = [{"Id": str(number), "MessageBody": body} | extra for number, body in enumerate(bodies[start : start + BATCH])]
            answer = await self._call("send_message_batch", Entries=entries)
            refused = answer.get("Failed") or []
            if refused:
                raise UnavailableError(f"SQS send_message_batch: {len(refused)} of {len(entries)} not sent: {refused[0].get('Message')}")

    async def receive(self, limit: int = BATCH, *, wait_seconds: int = LONG_POLL_SECONDS, visibility: int | None = None) -> list[Message]:
        """Up to 10 messages, waiting for the first."""
        request: dict[str, Any] = {
            "MaxNumberOfMessages": min(limit, BATCH),
            "WaitTimeSeconds": wait_seconds,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["ApproximateReceiveCount", "SentTimestamp", "SenderId"],
        }
        if visibility is not None:
            request["VisibilityTimeout"] = visibility
        answer = await self._call("receive_message", **request)
        return [_message(raw) for raw in answer.get("Messages", [])]

    async def delete(self, messages: Sequence[Message]) -> None:
        """Delete received messages, ten a request. One whose deletion fails comes again, which every handler bears."""
        for start in range(0, len(messages), BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": message.receipt} for number, message in enumerate(messages[start : start + BATCH])
            ]
            await self._call("delete_message_batch", Entries=entries)

    async def extend(self, messages: Sequence[Message], seconds: int) -> None:
        """Keep received messages out of sight for so many seconds from now; 0 gives them back at once."""
        for start in range(0, len(messages), BATCH):
            entries = [
                {"Id": str(number), "ReceiptHandle": message.receipt, "VisibilityTimeout": seconds}
                for number, message in enumerate(messages[start : start + BATCH])
            ]
            await self._call("change_message_visibility_batch", Entries=entries)

    async def count(self) -> int:
        """About how many messages wait."""
        answer = await self._call("get_queue_attributes", AttributeNames=["ApproximateNumberOfMessages"])
        return int(answer["Attributes"]["ApproximateNumberOfMessages"])

    async def _call(self, operation: str, **request: Any) -> Any:
        try:
            return await getattr(self._client, operation)(QueueUrl=self.url, **request)
        except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"SQS {operation}: {error}") from error


def _message(raw: Mapping[str, Any]) -> Message:
    system = raw.get("Attributes", {})
    sent = system.get("SentTimestamp")
    return Message(
        id=raw["MessageId"],
        body=raw["Body"],
        receipt=raw["ReceiptHandle"],
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=datetime.fromtimestamp(int(sent) / 1000, UTC) if sent else None,
        sender=system.get("SenderId"),
        attributes={name: value.get("StringValue", "") for name, value in raw.get("MessageAttributes", {}).items()},
    )

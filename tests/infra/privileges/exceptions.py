"""Rights that no recording can show in use, each with the reason and how it is known to be needed.

A right that is used after all is not to stand here: the tests say so.
"""

from __future__ import annotations

from typing import Final

from infra.functions import FUNCTIONS, QueueSource, StreamSource
from tests.infra.privileges.comparing import Right

_POLLED: Final = {
    f"gpufleet-{function.role}": f":gpufleet-{source.queue}"
    for function in FUNCTIONS
    for source in function.sources
    if isinstance(source, QueueSource)
}
_STREAMS: Final = {f"gpufleet-{one.role}" for one in FUNCTIONS if any(isinstance(source, StreamSource) for source in one.sources)}
_OF_POLLER: Final = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
_OF_STREAM: Final = {"dynamodb:DescribeStream", "dynamodb:GetShardIterator", "dynamodb:GetRecords"}
_OF_LOGS: Final = {"logs:CreateLogStream", "logs:PutLogEvents"}


def reason(right: Right) -> str | None:
    """Why a right is needed though nobody was seen to use it; None where there is no reason.

    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html, …/services-ddb-eventsourcemapping.html and
    …/lambda-intro-execution-role.html tell what Lambda asks for in a function's name; the emulator's Lambda asks nobody.
    """
    if right.action in _OF_LOGS and ":log-group:/aws/lambda/gpufleet-" in right.resource:
        return "Lambda writes a function's log in its name"
    if right.action in _OF_POLLER and right.resource.endswith(_POLLED.get(right.role, "?")):
        return "Lambda's poller reads the queue in the name of the function behind it"
    of_stream = right.action in _OF_STREAM and right.resource.endswith("/stream/*")
    if right.role in _STREAMS and (of_stream or right.action == "dynamodb:ListStreams"):
        return "Lambda's poller reads the table's stream in the name of the function behind it"
    return None

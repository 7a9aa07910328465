"""What IAM is asked about a request, where the emulator's own reading of it differs from AWS's or says less.

https://docs.aws.amazon.com/service-authorization/latest/reference/ for actions and condition keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, Final
from urllib.parse import parse_qs

from botocore.parsers import BaseCBORParser

_BATCHES: Final = {
    "sqs:SendMessageBatch": "sqs:SendMessage",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
}
_RPC: Final = re.compile(r"/service/\w+/operation/(\w+)")
_IAM_NAMES: Final = {"monitoring": "cloudwatch"}
_PARTITION: Final = re.compile(r"^\s*([\w#]+)\s*=\s*(:\w+)")
_PARTITION_KEY: Final = "pk"

Json = Mapping[str, Any]


def action_of(action: str) -> str:
    """The action that IAM asks for when this one is called."""
    return _BATCHES.get(action, action)


def called(service: str, path: str) -> str | None:
    """The action of a request whose path names it, as the newest protocol of CloudWatch has it (smithy-rpc-v2)."""
    found = _RPC.fullmatch(path)
    return f"{_IAM_NAMES.get(service, service)}:{found[1]}" if found is not None else None


def leading_keys(body: bytes) -> list[str]:
    """The partition keys, of the table or of an index, that a request to DynamoDB names (`dynamodb:LeadingKeys`)."""
    return sorted({value for value in _keys(_document(body)) if value})


def namespace_of(body: bytes, content_type: str) -> str:
    """The namespace of a PutMetricData (`cloudwatch:namespace`), in whichever of CloudWatch's protocols it comes."""
    if "cbor" in content_type:
        return str(BaseCBORParser().parse_data_item(BytesIO(body)).get("Namespace", ""))
    if "json" in content_type:
        return str(_document(body).get("Namespace", ""))
    return parse_qs(body.decode()).get("Namespace", [""])[0]


def _keys(document: Json) -> Iterator[str]:
    for item in document.get("TransactItems", ()):
        for write in item.values():
            yield from _keys(write)
    for request in (document.get("RequestItems") or {}).values():
        for key in request.get("Keys", ()):
            yield _text(key)
    yield _text(document.get("Key") or document.get("Item") or {})
    found = _PARTITION.match(document.get("KeyConditionExpression") or "")
    if found is not None:
        yield next(iter(document["ExpressionAttributeValues"][found[2]].values()))


def _text(key: Json) -> str:
    value = key.get(_PARTITION_KEY, {})
    return str(next(iter(value.values()), ""))


def _document(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}

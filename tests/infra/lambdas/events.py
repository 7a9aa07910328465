"""Events as AWS makes them.

API Gateway's payload format 2.0, with each kind of authorizer: "Working with AWS Lambda proxy integrations for HTTP APIs"; SQS: "Using
Lambda with Amazon SQS"; DynamoDB: "Using Lambda with Amazon DynamoDB"; all of the AWS developer guides.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

ARN = "arn:aws:sts::123456789012:assumed-role/trainers/ci"


def iam(arn: str = ARN) -> dict[str, Any]:
    """What an IAM authorizer says of a caller."""
    return {
        "iam": {
            "accessKey": "ASIAEXAMPLE",
            "accountId": "123456789012",
            "callerId": "AROAEXAMPLE:ci",
            "cognitoIdentity": None,
            "principalOrgId": "o-example",
            "userArn": arn,
            "userId": "AROAEXAMPLE:ci",
        }
    }


def jwt(*scopes: str, **claims: str) -> dict[str, Any]:
    """What a JWT authorizer says of a caller: claims are texts, a list is one in brackets."""
    standing = {"iss": "https://issuer.example/pool", "sub": "4f1c", "aud": "gpufleet", "iat": "1764540000", "exp": "1764543600"}
    return {"jwt": {"claims": {**standing, "scope": " ".join(scopes), **claims}, "scopes": None}}


def request(
    method: str,
    path: str,
    body: Any = None,
    *,
    query: Mapping[str, str] | None = None,
    authorizer: Mapping[str, Any] | None = None,
    encoded: bool = False,
    cookies: Sequence[str] = (),
    **headers: str,
) -> dict[str, Any]:
    """A request to the HTTP API; `encoded`: its body comes as base64, as any that isn't text."""
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    if text is not None and encoded:
        text = base64.b64encode(text.encode()).decode()
    now = datetime.now(UTC)
    return {
        "version": "2.0",
        "routeKey": "ANY /{proxy+}",
        "rawPath": path,
        "rawQueryString": urlencode(query or {}),
        "headers": {
            "accept": "*/*",
            "content-length": str(len(text or "")),
            "content-type": "application/json",
            "host": "abcdefghij.execute-api.us-east-1.amazonaws.com",
            "user-agent": "python-httpx/0.28",
            "x-amzn-trace-id": "Root=1-656a2f00-0123456789abcdef01234567",
            "x-forwarded-for": "203.0.113.7",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
            **headers,
        },
        **({"cookies": list(cookies)} if cookies else {}),
        **({"queryStringParameters": dict(query)} if query else {}),
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdefghij",
            **({"authorizer": dict(authorizer)} if authorizer else {}),
            "domainName": "abcdefghij.execute-api.us-east-1.amazonaws.com",
            "domainPrefix": "abcdefghij",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7", "userAgent": "python-httpx/0.28"},
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "ANY /{proxy+}",
            "stage": "$default",
            "time": now.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now.timestamp() * 1000),
        },
        "pathParameters": {"proxy": path.lstrip("/")},
        **({"body": text} if text is not None else {}),
        "isBase64Encoded": encoded,
    }


def batch(queue: str, *bodies: Any, identifiers: Sequence[str] = ()) -> dict[str, Any]:
    """A batch of a queue's messages."""
    return {
        "Records": [_record(queue, body, identifiers[place] if identifiers else str(uuid.uuid4())) for place, body in enumerate(bodies)]
    }


def _record(queue: str, body: Any, identifier: str) -> dict[str, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    now = str(int(datetime.now(UTC).timestamp() * 1000))
    return {
        "messageId": identifier,
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
        "body": text,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": now,
            "SenderId": "AIDAENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": now,
        },
        "messageAttributes": {},
        "md5OfBody": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
        "awsRegion": "us-east-1",
    }


def stream(records: Sequence[Mapping[str, Any]], table: str) -> dict[str, Any]:
    """A batch of the table's stream, of what GetRecords gives; times come as numbers, as Lambda writes them."""
    arn = f"arn:aws:dynamodb:us-east-1:123456789012:table/{table}/stream/2026-11-30T00:00:00.000"
    return {"Records": [{**json.loads(json.dumps(dict(one), default=_time)), "eventSourceARN": arn} for one in records]}


def _time(value: Any) -> float:
    assert isinstance(value, datetime)
    return value.timestamp()

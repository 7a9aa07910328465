"""The API as Lambda calls it: one event loop and one set of clients over several invocations."""

from __future__ import annotations

import json
import os
import subprocess
import sys

SCRIPT = """
import json, sys
from workers.api import lambda_handler
import asyncio
events = json.load(sys.stdin)
answers = [lambda_handler.handler(event, None) for event in events]
loop = asyncio.get_event_loop()
loop.run_until_complete(lambda_handler._stack.aclose())
print(json.dumps(answers))
"""


ARN = "arn:aws:sts::123456789012:assumed-role/trainers/ci"


def event(method, path, body=None, *, arn=ARN, **headers):
    """An event of an HTTP API; without an ARN, of one that asks nobody who he is."""
    authorizer = {"authorizer": {"iam": {"userArn": arn, "accountId": "123456789012"}}} if arn else {}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "api.example", **headers},
        "requestContext": {"http": {"method": method, "path": path, "sourceIp": "127.0.0.1", "protocol": "HTTP/1.1"}} | authorizer,
        "body": json.dumps(body) if body is not None else None,
        "isBase64Encoded": False,
    }


def answers(shared_settings, *events):
    environment = os.environ | {
        "GPUFLEET_TABLE": shared_settings.table,
        "GPUFLEET_BUCKET": shared_settings.bucket,
        "GPUFLEET_QUEUE_PREFIX": shared_settings.queue_prefix,
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(events), env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_several_invocations_share_a_container(aws_environment, shared_settings):
    from tests.integration.api.conftest import submission

    found = answers(
        shared_settings,
        event("GET", "/readyz", arn=None),
        event("POST", "/api/v1/queue/jobs", submission()),
        event("POST", "/api/v1/queue/jobs", {}),
    )

    assert [answer["statusCode"] for answer in found] == [200, 201, 422]
    assert json.loads(found[1]["body"])["job"]["submitted_by"] == ARN


def test_whoever_api_gateway_does_not_know_is_nobody_whatever_the_headers_say(aws_environment, shared_settings):
    said = {
        "x-amzn-iam-user-arn": ARN,
        "authorization": f"AWS4-HMAC-SHA256 Credential={ARN}",
        "x-apigateway-event": json.dumps(event("GET", "/")),
    }

    found = answers(shared_settings, event("GET", "/api/v1/queue/jobs", arn=None), event("GET", "/api/v1/queue/jobs", arn=None, **said))

    assert [answer["statusCode"] for answer in found] == [401, 401]
    assert "no credentials" in json.loads(found[0]["body"])["detail"]

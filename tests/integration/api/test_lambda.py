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


def event(method, path, body=None):
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json", "host": "api.example"},
        "requestContext": {"http": {"method": method, "path": path, "sourceIp": "127.0.0.1", "protocol": "HTTP/1.1"}},
        "body": json.dumps(body) if body is not None else None,
        "isBase64Encoded": False,
    }


def test_several_invocations_share_a_container(aws_environment, shared_settings):
    from tests.integration.api.conftest import submission

    environment = os.environ | {
        "GPUFLEET_TABLE": shared_settings.table,
        "GPUFLEET_BUCKET": shared_settings.bucket,
        "GPUFLEET_QUEUE_PREFIX": shared_settings.queue_prefix,
    }
    events = [event("GET", "/readyz"), event("POST", "/api/v1/queue/jobs", submission()), event("POST", "/api/v1/queue/jobs", {})]

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(events), env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert [answer["statusCode"] for answer in json.loads(done.stdout)] == [200, 201, 422]

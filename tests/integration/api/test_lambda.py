"""The API as Lambda calls it: one event loop and one set of clients over several invocations."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest
from mangum import Mangum

from workers.api import lambda_handler

SCRIPT = """
import json, sys
from workers.api import lambda_handler
events = json.load(sys.stdin)
answers = [lambda_handler.handler(event, None) for event in events]
lambda_handler.container.close()
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


def answers(shared_settings, *events, **variables):
    environment = (
        os.environ
        | variables
        | {
            "GPUFLEET_TABLE": shared_settings.table,
            "GPUFLEET_BUCKET": shared_settings.bucket,
            "GPUFLEET_QUEUE_PREFIX": shared_settings.queue_prefix,
        }
    )
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


def test_a_caller_with_a_token_may_do_what_its_scopes_say(aws_environment, shared_settings):
    from tests.integration.api.conftest import submission

    def with_token(method, path, body=None, **claims):
        found = event(method, path, body, arn=None, authorization="Bearer x")
        claims = {"iss": "https://issuer.example", "sub": "ada"} | claims
        found["requestContext"]["authorizer"] = {"jwt": {"claims": claims, "scopes": None}}
        return found

    found = answers(
        shared_settings,
        with_token("POST", "/api/v1/queue/jobs", submission(), scope="gpufleet/submit gpufleet/read"),
        with_token("POST", "/api/v1/queue/jobs", submission(), scope="gpufleet/read"),
        with_token("GET", "/api/v1/queue/jobs", scope="openid"),
        with_token("POST", "/api/v1/queue/jobs", submission(), scope="gpufleet/submit", gpufleet_namespaces="elsewhere"),
        event("GET", "/api/v1/queue/jobs"),
        event("GET", "/api/v1/queue/jobs", arn=None, authorization="Bearer x"),
        GPUFLEET_IDENTITY="iam,jwt",
    )

    assert [answer["statusCode"] for answer in found] == [201, 403, 403, 403, 200, 401]
    assert json.loads(found[0]["body"])["job"]["submitted_by"] == "token:https://issuer.example#ada"


@pytest.fixture
def container_loop():
    """The event loop that Mangum takes, as the adapter of a container makes one."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.parametrize(("lines", "status"), [(1_000_000, 200), (1_300_000, 503)], ids=["what Lambda gives", "more than that"])
def test_an_answer_that_lambda_would_refuse_is_told_with_what_to_do(monkeypatch, container_loop, lines, status):
    """Four bytes a line in the answer, and five as JSON, in which its newline is escaped."""

    async def app(scope, receive, send):
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-request-id", b"0123456789abcdef0123456789abcdef")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc\n" * lines})

    monkeypatch.setattr(lambda_handler.container, "living", lambda: Mangum(app, lifespan="off"))

    answer = lambda_handler.handler(event("GET", "/fleet/v1/jobs/1/logs"), None)

    assert answer["statusCode"] == status
    assert len(json.dumps(answer)) <= lambda_handler.LARGEST
    if status == 503:
        told = json.loads(answer["body"])
        assert told["request_id"] == answer["headers"]["x-request-id"] == "0123456789abcdef0123456789abcdef"
        assert "6291456 at most: ask for less" in told["detail"]

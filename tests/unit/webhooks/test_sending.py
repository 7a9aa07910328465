"""Attempts over the wire: what they carry, how they are signed, and what is kept of an answer."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook as StandardWebhook

from shared.errors import UnavailableError
from shared.webhooks.http import TEXT_BYTES
from shared.webhooks.ports import Failure
from shared.webhooks.rotation import SecretRing
from tests.unit.webhooks.attempts import MESSAGE, SECRET, Kept, send, sender, webhook
from tests.unit.webhooks.receivers import answering, receiving


async def test_a_message_arrives_with_its_headers():
    async with receiving(answering("202 Accepted", b"thank you")) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}?a=b")

    [received] = receiver.received
    assert (answer.status, answer.failure, answer.text, answer.retry_after) == (202, None, "thank you", None)
    assert received.line == "POST /?a=b HTTP/1.1"
    assert received.body == MESSAGE.body
    headers = {name: value for name, value in received.headers.items() if name != "webhook-timestamp"}
    assert headers == {
        "host": f"hooks.example:{receiver.port}",
        "content-type": "application/json",
        "content-length": str(len(MESSAGE.body)),
        "user-agent": "GCO-Webhook/gpufleet-eu",
        "x-gco-event": "job.completed",
        "x-gco-cluster": "gpufleet-eu",
        "x-gco-region": "eu-west-1",
        "webhook-id": MESSAGE.id,
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
    }


async def test_a_message_is_signed_for_the_moment_of_the_attempt():
    async with receiving(answering()) as receiver:
        await send(f"http://hooks.example:{receiver.port}", signed=True)

    [received] = receiver.received
    assert StandardWebhook(SECRET.encode()).verify(received.body, received.headers)["event"] == "job.completed"


@pytest.mark.parametrize("value", [None, UnavailableError("not now")])
async def test_without_its_secret_nothing_is_sent_and_the_fault_is_ours(value):
    async with receiving(answering()) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}", signed=True, secrets=Kept(value))

    assert (answer.status, answer.failure, receiver.connections) == (None, Failure.OURS, 0)


async def test_a_compressed_answer_is_left_as_it_is():
    async with receiving(answering(body=b"\x1f\x8b" + b"\0" * 50, Content_Encoding="gzip")) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.text) == (200, "(gzip, which was not asked for)")


async def test_what_an_answer_says_is_cut_between_characters_and_printable():
    async with receiving(answering(body="€".encode() * 1000)) as receiver:
        cut = await send(f"http://hooks.example:{receiver.port}")
    async with receiving(answering(body=b"\xffred\x1b[31m\r\nalert\x00")) as receiver:
        odd = await send(f"http://hooks.example:{receiver.port}")

    assert cut.text == "€" * (TEXT_BYTES // 3)
    assert odd.text == "\ufffdred [31m alert"


async def test_a_cluster_name_that_no_header_holds_is_sent_all_the_same():
    async with receiving(answering()) as receiver:
        message = dataclasses.replace(MESSAGE, cluster="é\r\nX-Evil: 1")
        answer = await sender().send(webhook(f"http://hooks.example:{receiver.port}"), message)

    assert answer.status == 200
    assert receiver.received[0].headers["x-gco-cluster"] == "?X-Evil: 1"


async def test_both_secrets_sign_while_they_overlap():
    now = datetime.now(UTC)
    ring = SecretRing.of("old secret").rotated("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", now=now, overlap=timedelta(hours=1))
    async with receiving(answering()) as receiver:
        await send(f"http://hooks.example:{receiver.port}", signed=True, secrets=Kept(ring.written()))

    [received] = receiver.received
    for key in ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b"old secret"):
        StandardWebhook(key).verify(received.body, received.headers)

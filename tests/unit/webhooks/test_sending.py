"""Attempts over the wire: where they go, what they carry, and what a receiver that misbehaves costs."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl
import time
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from standardwebhooks import Webhook as StandardWebhook

from shared.clock import SystemClock
from shared.errors import UnavailableError
from shared.webhooks.http import BODY_BYTES, HEAD_BYTES, TEXT_BYTES, Poster, trusted
from shared.webhooks.model import Webhook
from shared.webhooks.ports import Failure, Message
from shared.webhooks.rotation import SecretRing, SigningSecrets
from shared.webhooks.sending import HttpSender
from shared.webhooks.urls import UrlRules
from tests.unit.webhooks.receivers import answering, certified, receiving, trusting

SECRET = "correct horse battery staple"
MESSAGE = Message(
    id="018f5b7e-0000-7000-8000-000000000000#7",
    event="job.completed",
    at=datetime(2026, 1, 2, tzinfo=UTC),
    cluster="gpufleet-eu",
    region="eu-west-1",
    body='{"event":"job.completed","name":"trainé"}'.encode(),
)


class Kept:
    """Secrets Manager with one secret."""

    def __init__(self, value=SECRET):
        self.value = value
        self.reads = 0

    async def get(self, name):
        self.reads += 1
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def webhook(url, *, signed=False):
    return Webhook(id="w1", url=url, events=("job.completed",), created_at=datetime.now(UTC), created_by="ann", signed=signed)


def sender(*addresses, secrets=None, seconds=5.0, local=True, connect=2.0, **options):
    """A sender for which every name has these addresses."""
    return HttpSender(
        rules=UrlRules(local=local, resolve=lambda host, port: list(addresses) or ["127.0.0.1"], **options),
        secrets=SigningSecrets(secrets or Kept(), SystemClock()),
        clock=SystemClock(),
        poster=Poster(tls=trusting, connect_seconds=connect),
        seconds=seconds,
    )


async def send(url, *, signed=False, **options):
    return await sender(**options).send(webhook(url, signed=signed), MESSAGE)


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


async def test_over_tls_name_and_certificate_are_those_of_the_url():
    async with receiving(answering(), tls=certified("hooks.example")) as receiver:
        answer = await send(f"https://hooks.example:{receiver.port}/x")

    assert answer.status == 200
    assert receiver.sni == ["hooks.example"]
    assert receiver.received[0].headers["host"] == f"hooks.example:{receiver.port}"


async def test_a_certificate_may_be_for_an_address():
    async with receiving(answering(), tls=certified("127.0.0.1")) as receiver:
        assert (await send(f"https://127.0.0.1:{receiver.port}/x")).status == 200


@pytest.mark.parametrize("names", [("other.example",), ("127.0.0.1",)])
async def test_a_certificate_for_another_name_is_refused_before_anything_is_sent(names):
    async with receiving(answering(), tls=certified(*names)) as receiver:
        answer = await send(f"https://hooks.example:{receiver.port}/x")

    assert (answer.status, answer.failure) == (None, Failure.TLS)
    assert "hooks.example" in answer.text
    assert receiver.received == []


async def test_a_certificate_of_an_unknown_authority_is_refused():
    async with receiving(answering(), tls=certified("hooks.example", by=trustme.CA())) as receiver:
        answer = await send(f"https://hooks.example:{receiver.port}/x")

    assert (answer.failure, receiver.received) == (Failure.TLS, [])
    assert "certificate" in answer.text


def test_by_default_certificates_are_checked_against_public_authorities():
    context = trusted()

    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) > 50


async def test_a_receiver_that_speaks_no_tls_is_told_so():
    async with receiving(answering()) as receiver:
        answer = await send(f"https://hooks.example:{receiver.port}/x", seconds=1.0)

    assert answer.failure in {Failure.TLS, Failure.TIMEOUT}


async def test_a_name_that_comes_to_mean_another_address_leads_nowhere():
    """DNS rebinding: whoever asks a second time is told an address of the network inside."""
    asked = []

    def rebinding(host, port):
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    async with receiving(answering()) as receiver:
        attempts = HttpSender(
            rules=UrlRules(local=True, resolve=rebinding), secrets=SigningSecrets(Kept(), SystemClock()), clock=SystemClock()
        )
        url = f"http://hooks.example:{receiver.port}/x"
        first = await attempts.send(webhook(url), MESSAGE)
        looked_up = len(asked)
        second = await attempts.send(webhook(url), MESSAGE)

    assert (first.status, looked_up) == (200, 1)  # the address that was checked is the one that was used
    assert (second.failure, receiver.connections) == (Failure.ADDRESS, 1)
    assert "public addresses only" in second.text


@pytest.mark.parametrize(
    "url", ["http://hooks.example/", "https://127.0.0.1/", "https://hooks.example:8080/", "https://u:p@hooks.example/"]
)
async def test_a_url_that_breaks_a_rule_by_now_is_not_sent_to(url):
    answer = await send(url, local=False)

    assert (answer.status, answer.failure) == (None, Failure.ADDRESS)


async def test_one_bad_address_among_good_ones_is_enough():
    async with receiving(answering()) as receiver:
        answer = await sender("127.0.0.1", "10.0.0.1").send(webhook(f"http://hooks.example:{receiver.port}"), MESSAGE)

    assert (answer.failure, receiver.connections) == (Failure.ADDRESS, 0)


async def test_the_next_address_has_its_chance():
    async with receiving(answering()) as receiver:
        answer = await sender("127.0.0.2", "127.0.0.1").send(webhook(f"http://hooks.example:{receiver.port}"), MESSAGE)

    assert answer.status == 200


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"])
async def test_a_redirect_is_not_followed(status):
    async with (
        receiving(answering()) as inside,
        receiving(answering(status, Location=f"http://127.0.0.1:{inside.port}/secret")) as receiver,
    ):
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert answer.status == int(status[:3])
    assert "not followed" in answer.text
    assert f"127.0.0.1:{inside.port}" in answer.text
    assert (receiver.connections, inside.connections) == (1, 0)


async def test_proxies_of_the_environment_are_not_asked(monkeypatch):
    async with receiving(answering("500 Internal Server Error")) as proxy, receiving(answering()) as receiver:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, proxy.connections) == (200, 0)


async def test_a_body_without_end_is_read_up_to_its_bound():
    sent = 0

    async def endless(request, writer):
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with receiving(endless) as receiver:
        begun = time.monotonic()
        answer = await send(f"http://hooks.example:{receiver.port}")
        took = time.monotonic() - begun
        async with asyncio.timeout(5):
            await receiver.ended.wait()

    assert (answer.status, answer.text) == (200, "x" * TEXT_BYTES)
    assert took < 2
    assert sent < 20 * 1024 * 1024  # what the sockets' buffers hold, and not what a receiver can send in the time of an attempt


@pytest.mark.parametrize(
    "part",
    [
        b"X-Long: " + b"a" * 8000 + b"\r\n",
        b"a" * 8000,  # one header without end
    ],
)
async def test_headers_without_end_are_read_up_to_their_bound(part):
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(part)
            await writer.drain()

    async with receiving(endless) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.failure) == (None, Failure.PROTOCOL)


async def test_informational_answers_without_end_are_read_up_to_their_bound():
    async def endless(request, writer):
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100)
            await writer.drain()

    async with receiving(endless) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.failure, str(HEAD_BYTES) in answer.text) == (Failure.PROTOCOL, True)


async def test_chunks_that_are_all_framing_are_read_up_to_their_bound():
    async def endless(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1;" + b"a" * 4000 + b"\r\nx\r\n")
            await writer.drain()

    async with receiving(endless) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert answer.status == 200
    assert 0 < len(answer.text) < (HEAD_BYTES + BODY_BYTES) / 4000


async def test_a_receiver_that_hangs_costs_its_time_and_no_more():
    async with receiving() as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}", seconds=0.3)

    assert (answer.status, answer.failure) == (None, Failure.TIMEOUT)
    assert 250 <= answer.latency < 2000


async def test_headers_that_come_byte_by_byte_end_with_the_attempt():
    async def dripping(request, writer):
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with receiving(dripping) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}", seconds=0.3)

    assert (answer.status, answer.failure) == (None, Failure.TIMEOUT)
    assert answer.latency < 2000


async def test_a_body_that_never_ends_takes_nothing_from_the_status():
    async def dripping(request, writer):
        writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 1000\r\nRetry-After: 120\r\n\r\nlater")
        await writer.drain()

    async with receiving(dripping) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}", seconds=0.3)

    assert (answer.status, answer.failure, answer.text, answer.retry_after) == (503, None, "later", "120")
    assert answer.latency < 250


async def test_a_body_that_breaks_off_takes_nothing_from_the_status():
    async def breaking(request, writer):
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        writer.close()

    async with receiving(breaking) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.text) == (200, "half")


async def test_a_reset_connection_is_no_answer():
    async def resetting(request, writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with receiving(resetting) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.failure) == (None, Failure.CONNECTION)
    assert answer.text


async def test_a_connection_that_is_closed_without_an_answer_is_none():
    async def closing(request, writer):
        writer.close()

    async with receiving(closing) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.failure, answer.text) == (Failure.CONNECTION, "the connection ended before an answer")


async def test_nobody_who_listens_is_told_so():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        answer = await send(f"http://hooks.example:{closed.getsockname()[1]}")

    assert answer.failure is Failure.CONNECTION
    assert answer.text


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"\x00\x01\x02\x03\r\n\r\n", b"HTTP/9.9 nonsense\r\n\r\n"])
async def test_what_is_no_http_is_told_so(said):
    async def speaking(request, writer):
        writer.write(said)
        await writer.drain()
        writer.write_eof()

    async with receiving(speaking) as receiver:
        answer = await send(f"http://hooks.example:{receiver.port}")

    assert (answer.status, answer.failure) == (None, Failure.PROTOCOL)
    assert answer.text.isprintable()


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


async def test_a_name_without_an_address_may_have_one_later():
    def nothing(host, port):
        raise OSError

    attempts = HttpSender(rules=UrlRules(resolve=nothing), secrets=SigningSecrets(Kept(), SystemClock()), clock=SystemClock())
    answer = await attempts.send(webhook("https://hooks.example"), MESSAGE)

    assert (answer.status, answer.failure) == (None, Failure.UNRESOLVED)


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

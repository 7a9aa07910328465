"""Where attempts go: to the address that was checked, to the name of the certificate, and nowhere that an answer or a proxy says."""

from __future__ import annotations

import ssl

import pytest
import trustme

from shared.clock import SystemClock
from shared.webhooks.http import trusted
from shared.webhooks.ports import Failure
from shared.webhooks.rotation import SigningSecrets
from shared.webhooks.sending import HttpSender
from shared.webhooks.urls import UrlRules
from tests.unit.webhooks.attempts import MESSAGE, Kept, send, sender, webhook
from tests.unit.webhooks.receivers import answering, authority, certified, receiving


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


def test_by_default_certificates_are_checked_against_public_authorities(monkeypatch):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)

    context = trusted.__wrapped__()

    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) > 50


def test_an_installation_names_the_authorities_that_it_trusts(monkeypatch, tmp_path):
    authority().cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))

    [trusted_one] = trusted.__wrapped__().get_ca_certs(binary_form=True)

    assert ssl.DER_cert_to_PEM_cert(trusted_one).encode() == authority().cert_pem.bytes()


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


async def test_a_name_without_an_address_may_have_one_later():
    def nothing(host, port):
        raise OSError

    attempts = HttpSender(rules=UrlRules(resolve=nothing), secrets=SigningSecrets(Kept(), SystemClock()), clock=SystemClock())
    answer = await attempts.send(webhook("https://hooks.example"), MESSAGE)

    assert (answer.status, answer.failure) == (None, Failure.UNRESOLVED)

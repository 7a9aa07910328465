"""Signatures, checked as receivers check them."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook as StandardWebhook
from standardwebhooks import WebhookVerificationError

from shared.webhooks.ports import Message
from shared.webhooks.registration import secret_rule
from shared.webhooks.signing import headers, new_secret

STANDARD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"name":"trainé €"}'.encode()
MESSAGE = Message(id="job#7", event="job.failed", at=datetime(2026, 1, 2, tzinfo=UTC), cluster="c", region="eu-west-1", body=BODY)


def signed(*secrets, at=None):
    return headers(MESSAGE, at=at or datetime.now(UTC), secrets=secrets)


def gco(secret, body=BODY):
    """As GCO's documentation tells receivers to do it."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("secret", "receiver"),
    [
        (STANDARD, STANDARD),
        ("correct horse battery staple", b"correct horse battery staple"),
        ("correct horse battery staple", "whsec_" + base64.b64encode(b"correct horse battery staple").decode()),
        ("pässwörter", "pässwörter".encode()),
    ],
)
def test_the_library_of_standard_webhooks_takes_it(secret, receiver):
    assert StandardWebhook(receiver).verify(BODY, signed(secret)) == {"name": "trainé €"}
    with pytest.raises(WebhookVerificationError):
        StandardWebhook(receiver).verify(BODY + b" ", signed(secret))


@pytest.mark.parametrize("secret", [STANDARD, "correct horse battery staple", "pässwörter"])
def test_receivers_of_gco_take_it(secret):
    assert signed(secret)["X-GCO-Signature"] == gco(secret)


def test_every_secret_signs_and_the_oldest_for_receivers_that_read_one_signature():
    found = signed(STANDARD, "the old secret")

    for key in (STANDARD, b"the old secret"):
        StandardWebhook(key).verify(BODY, found)
    assert found["X-GCO-Signature"] == gco("the old secret")


def test_a_signature_grows_old():
    with pytest.raises(WebhookVerificationError, match="too old"):
        StandardWebhook(STANDARD).verify(BODY, signed(STANDARD, at=datetime.now(UTC) - timedelta(minutes=6)))


def test_a_message_of_a_webhook_without_a_secret_has_no_signature():
    assert not {"webhook-signature", "X-GCO-Signature"} & signed().keys()
    assert signed()["webhook-id"] == "job#7"


def test_new_secrets_keep_the_rule_and_are_never_the_same():
    found = {new_secret() for _ in range(100)}

    assert len(found) == 100
    assert all(secret_rule(secret) is None for secret in found)

"""How a message is signed: by Standard Webhooks, and as GCO's receivers expect it, both with every secret that holds.

A secret of Standard Webhooks (`whsec_` and base64) is the key that the base64 stands for. Any other text, as GCO has them, is a key by its
UTF-8 bytes: receivers of Standard Webhooks give their library those bytes (`Webhook(secret.encode())`, or `whsec_` and base64 of them).
GCO's receivers take the text of a secret as it is, whatever it begins with.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from standardwebhooks import Webhook as StandardWebhook

from shared.webhooks.ports import Message
from shared.webhooks.registration import STANDARD_PREFIX

_BYTES: Final = 32
_UNSENDABLE: Final = dict.fromkeys([*range(0x20), 0x7F])


def new_secret() -> str:
    """A new secret of Standard Webhooks: 256 random bits."""
    return STANDARD_PREFIX + b64encode(secrets.token_bytes(_BYTES)).decode()


def headers(message: Message, *, at: datetime, secrets: Sequence[str]) -> dict[str, str]:
    """All headers that tell of a message, and its signatures by some secrets, newest first; none without secrets.

    `at` is the time of the attempt, aware and in UTC: the signature covers it, so that an old message can't be sent again by others.
    `X-GCO-Signature` holds one signature only; it is that of the oldest secret, the one that a receiver knows who has not changed yet.
    """
    cluster = _value(message.cluster)
    found = {
        "Content-Type": "application/json",
        "User-Agent": f"GCO-Webhook/{cluster}",
        "X-GCO-Event": message.event,
        "X-GCO-Cluster": cluster,
        "X-GCO-Region": _value(message.region),
        "webhook-id": message.id,
        "webhook-timestamp": str(int(at.timestamp())),
    }
    if secrets:
        text = message.body.decode()
        found["webhook-signature"] = " ".join(_standard(secret).sign(message.id, at, text) for secret in secrets)
        digest = hmac.new(secrets[-1].encode(), message.body, hashlib.sha256).hexdigest()
        found["X-GCO-Signature"] = f"sha256={digest}"
    return found


def _standard(secret: str) -> StandardWebhook:
    return StandardWebhook(secret if secret.startswith(STANDARD_PREFIX) else secret.encode())


def _value(text: str) -> str:
    """Text as a header holds it."""
    return text.translate(_UNSENDABLE).encode("ascii", "replace").decode()

"""How a webhook comes and goes with its secret, so that neither is left half done.

The secret is kept before the webhook, and deleted after it. What can be left behind when a process dies in between is a secret that
nothing names: it costs a few cents and can't be read through any API of the fleet.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

import structlog

from shared.errors import FleetError, NotFoundError, UnavailableError
from shared.secrets import Secrets
from shared.store.webhooks import Entry, Webhooks
from shared.webhooks.model import Webhook, secret_name
from shared.webhooks.rotation import SecretRing

MIN_SECRET: Final = 8
MAX_SECRET: Final = 256
STANDARD_PREFIX: Final = "whsec_"
"""Begins a secret of Standard Webhooks: base64 of 24 to 64 bytes (https://www.standardwebhooks.com)."""

DESCRIPTION: Final = "signs the deliveries of a webhook of gpufleet"

log = structlog.get_logger()


def secret_rule(secret: object) -> str | None:
    """The rule that a secret breaks. The secret itself is never told."""
    if not isinstance(secret, str):
        return "must be a string"
    if not MIN_SECRET <= len(secret) <= MAX_SECRET:
        return f"must have {MIN_SECRET} to {MAX_SECRET} characters; leave it out for deliveries that aren't signed"
    if secret.startswith(STANDARD_PREFIX):
        try:
            size = len(base64.b64decode(secret.removeprefix(STANDARD_PREFIX), validate=True))
        except (binascii.Error, ValueError):
            size = 0
        if not 24 <= size <= 64:
            return f"must be base64 of 24 to 64 bytes behind {STANDARD_PREFIX}"
    return None


class Registration:
    """Makes and deletes webhooks."""

    def __init__(self, webhooks: Webhooks, secrets: Secrets) -> None:
        self._webhooks = webhooks
        self._secrets = secrets

    async def create(self, webhook: Webhook, *, secret: str | None) -> None:
        """Keep the secret, then the webhook. Raises ConflictError where the namespace is full, UnavailableError."""
        if secret is not None:
            value = SecretRing.of(secret).written()
            await self._secrets.create(webhook.secret_name, value, description=DESCRIPTION)
        try:
            await self._webhooks.create(webhook)
        except FleetError as error:
            if secret is None or not isinstance(error, UnavailableError):
                await self._drop(webhook)
                raise
            # The answer was lost, and with it whether the webhook stands: without its secret it could sign nothing.
            if not await self._stands(webhook.id):
                await self._drop(webhook)
                raise

    async def delete(self, entry: Entry) -> None:
        """Delete the webhook, then its secret. Raises UnavailableError; then it is deleted again, which finishes what is left."""
        if not entry.deleted:
            await self._webhooks.remove(entry)
        if entry.signed:
            await self._secrets.delete(secret_name(entry.id))
            await self._webhooks.forget(entry)

    async def _stands(self, webhook_id: str) -> bool:
        """Raises UnavailableError where that can't be known; then the secret stays."""
        try:
            await self._webhooks.entry(webhook_id)
        except NotFoundError:
            return False
        return True

    async def _drop(self, webhook: Webhook) -> None:
        if webhook.signed:
            try:
                await self._secrets.delete(webhook.secret_name)
            except UnavailableError as error:
                log.warning("a secret is left behind", name=webhook.secret_name, error=str(error))

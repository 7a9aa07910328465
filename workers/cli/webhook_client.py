"""The API's webhooks as the command sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpx

from workers.cli.client import FleetClient, Json, segment
from workers.cli.failures import CommandError, ExitCode, Fault

_GCO = "/api/v1/webhooks"
_WEBHOOKS = "/fleet/v1/webhooks"
_OPTIONS = {
    "url": "URL",
    "events": "-e",
    "namespace": "--namespace",
    "secret": "--secret",
    "overlap_seconds": "--overlap",
    "reason": "--reason",
    "since": "--since",
    "state": "--state",
}
"""Which options the fields of bodies and the parameters of questions are from."""


class WebhookClient(FleetClient):
    """Asks about webhooks, and changes them. Raises CommandError, whose faults are named by options."""

    options_only = True

    def _send(self, method: str, path: str, **parts: Any) -> httpx.Response:
        try:
            return super()._send(method, path, **parts)
        except CommandError as error:
            raise CommandError(error.message, code=error.code, faults=[_named(fault) for fault in error.faults]) from error

    def create_webhook(self, wanted: Mapping[str, Any]) -> Json:
        """Register a webhook."""
        return self._object(self._send("POST", _GCO, json=dict(wanted)), webhook=dict)

    def delete_webhook(self, webhook_id: str) -> Json:
        """Delete a webhook and its secret."""
        return self._object(self._send("DELETE", f"{_GCO}/{segment('Webhook', webhook_id)}"), message=str)

    def webhooks(self, **filters: Any) -> Json:
        """One page of webhooks, newest first."""
        return self._get(_WEBHOOKS, filters, webhooks=list)

    def webhook(self, webhook_id: str) -> Json:
        """A webhook, how it fares, what was done to it."""
        return self._get(_path(webhook_id), id=str, state=str, health=dict)

    def enable_webhook(self, webhook_id: str) -> Json:
        """Tell it of events again."""
        return self._object(self._send("POST", f"{_path(webhook_id)}/enable"), state=str)

    def disable_webhook(self, webhook_id: str, *, reason: str | None) -> Json:
        """Send it nothing more."""
        body = {} if reason is None else {"reason": reason}
        return self._object(self._send("POST", f"{_path(webhook_id)}/disable", json=body), state=str)

    def rotate_secret(self, webhook_id: str, wanted: Mapping[str, Any]) -> Json:
        """Give it a new secret; the answer has it, once."""
        return self._object(self._send("POST", f"{_path(webhook_id)}/rotate", json=dict(wanted)), webhook=dict)

    def test_webhook(self, webhook_id: str) -> Json:
        """Send it a test; what it answers."""
        return self._object(self._send("POST", f"{_path(webhook_id)}/test"), delivered=bool)

    def deliveries(self, webhook_id: str, **filters: Any) -> Json:
        """One page of what it was told, newest first."""
        return self._get(f"{_path(webhook_id)}/deliveries", filters, deliveries=list)

    def delivery(self, webhook_id: str, message_id: str) -> Json:
        """One delivery with its latest attempts."""
        return self._get(_delivery(webhook_id, message_id), message_id=str, latest_attempts=list)

    def redeliver(self, webhook_id: str, message_id: str) -> Json:
        """Send one delivery again."""
        return self._object(self._send("POST", f"{_delivery(webhook_id, message_id)}/redeliver"), state=str)

    def redeliver_failed(self, webhook_id: str, *, since: str | None) -> Json:
        """Send again what has failed: `count`, and whether there is `more`."""
        body = {} if since is None else {"since": since}
        return self._object(self._send("POST", f"{_path(webhook_id)}/redeliver", json=body), count=int, more=bool)


def _named(fault: Fault) -> Fault:
    """A fault of a field, by the option that the field is from."""
    option = _OPTIONS.get(fault.field.removeprefix("/").partition("/")[0])
    return fault if option is None else replace(fault, field=option)


def _path(webhook_id: str) -> str:
    return f"{_WEBHOOKS}/{segment('Webhook', webhook_id)}"


def _delivery(webhook_id: str, message_id: str) -> str:
    """The path of a delivery by the id of its message, `<job id>#<number>`."""
    job_id, _, number = message_id.rpartition("#")
    if not (number.isascii() and number.isdigit()):
        raise CommandError(f"Delivery '{message_id}' not found: an id is that of a job, # and a number", code=ExitCode.NOT_FOUND)
    return f"{_path(webhook_id)}/deliveries/{segment('Job', job_id)}/{number}"

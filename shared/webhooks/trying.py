"""A message that tells of nothing, to see whether an endpoint takes and verifies what it is sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from shared.webhooks.model import Webhook
from shared.webhooks.ports import Message


def sample(webhook: Webhook, *, now: datetime, nonce: str, cluster: str, region: str) -> Message:
    """A `webhook.test`, shaped as the other messages are, so that a receiver that reads them reads it; its job never was."""
    moment = now.astimezone(UTC).isoformat().replace("+00:00", "Z")
    message_id = f"test#{nonce}"
    document: dict[str, Any] = {
        "id": message_id,
        "event": "webhook.test",
        "timestamp": moment,
        "cluster_id": cluster,
        "region": region,
        "job_id": None,
        "execution": None,
        "reason": None,
        "message": f"a test of webhook {webhook.id}",
        "submitted_by": None,
        "cost": {"usd": "0", "known_usd": "0", "missing": None},
        "job": {
            "name": "webhook-test",
            "namespace": webhook.namespace or "default",
            "uid": None,
            "labels": {},
            "status": "succeeded",
            "start_time": moment,
            "completion_time": moment,
            "active": 0,
            "succeeded": 1,
            "failed": 0,
        },
    }
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return Message(id=message_id, event="webhook.test", at=now, cluster=cluster, region=region, body=body)

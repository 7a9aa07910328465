"""Which events of jobs are told to webhooks, and as what: the one place where that is decided."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from shared.jobs.model import EventType
from shared.webhooks.model import WebhookEvent

TOLD: Final[Mapping[EventType, WebhookEvent]] = MappingProxyType(
    {
        EventType.SUBMITTED: "job.queued",
        EventType.RETRY: "job.queued",  # an attempt failed and another follows: not the job's failure
        EventType.RUNNING: "job.started",
        EventType.INTERRUPTED: "job.interrupted",
        EventType.SUCCEEDED: "job.completed",
        EventType.FAILED: "job.failed",
        EventType.CANCELLED: "job.cancelled",
    }
)
"""What isn't here is the fleet's own business: claims, commits, waits, stops that are asked for and not yet done. That no pod finds a place
is told by the job itself, and may be over before anybody reads of it."""

LAST: Final[frozenset[WebhookEvent]] = frozenset({"job.cancelled", "job.completed", "job.failed"})
"""Nothing follows these in a job."""

"""What a webhook is told of an event: GCO's document (its webhook_dispatcher), and beside it what GCO doesn't know.

It is made from the event, from the execution that the event is about, and from what never changes in a job; so it is the same whenever
it is made, and a delivery that comes late tells of its own event and not of what came after. Counts of pods are those of the cluster at
that moment; they are 0 where the event is not the cluster's (queued, cancelled, a limit that was overstepped).

`cost` is what the job had cost by the time of the event, all its executions together, in USD, as texts. It was reckoned once, by whoever
wrote the event: at another attempt, and for another endpoint, it is the same. Where not all of it was known then, `usd` is null,
`known_usd` what was known, and `missing` says what wasn't.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from shared.jobs.model import Event, EventType, Execution, Head, PodCounts, Spent
from shared.jobs.spending import NOTHING, unknown
from shared.webhooks.deliveries import message_id
from shared.webhooks.events import LAST, TOLD
from shared.webhooks.ports import Message


def message(head: Head, event: Event, execution: Execution | None, *, cluster: str) -> Message:
    """The message of an event; `execution` is the one that the event names, where it has come as far as a cluster."""
    kind = TOLD[event.type]
    document = {
        "id": message_id(event.job_id, event.number),
        "event": kind,
        "timestamp": _time(event.at),
        "cluster_id": cluster,
        "region": head.region,
        "job_id": event.job_id,
        "execution": event.execution,
        "reason": event.reason,
        "message": event.message,
        "submitted_by": head.submitted_by,
        "cost": told_cost(cost_of(event)),
        "job": _job(head, event, None if kind == "job.queued" else execution),
    }
    if event.type is EventType.RETRY:
        document["execution"] = event.execution + 1  # the one that is queued; the event is of the one that failed
    return Message(
        id=message_id(event.job_id, event.number),
        event=kind,
        at=event.at,
        cluster=cluster,
        region=head.region,
        body=json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(),
    )


def cost_of(event: Event) -> Spent:
    """What a job had cost at an event; nothing when it was submitted. Events of earlier releases don't say."""
    if event.cost is not None:
        return event.cost
    return NOTHING if event.type is EventType.SUBMITTED else unknown("the event does not tell it")


def told_cost(cost: Spent) -> dict[str, Any]:
    """A cost as it is told."""
    return {"usd": _money(cost.usd), "known_usd": _money(cost.known_usd), "missing": cost.missing}


def _money(amount: Decimal | None) -> str | None:
    return f"{amount:f}" if amount is not None else None


def _job(head: Head, event: Event, execution: Execution | None) -> dict[str, Any]:
    ended = TOLD[event.type] in LAST
    started = execution.started_at if execution else None
    finished = (execution.finished_at if execution else None) or event.at
    return {
        "name": head.name,
        "namespace": head.namespace,
        "uid": execution.object.uid if execution and execution.object else None,
        "labels": head.labels,
        "status": event.state.value,
        "start_time": _time(started),
        "completion_time": _time(finished) if ended else None,
        **(event.pods or PodCounts()).model_dump(),
    }


def _time(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if moment else None

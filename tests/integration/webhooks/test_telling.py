"""From the change of a job to the endpoint: the whole way, over the wire."""

from __future__ import annotations

import json

from shared.webhooks.deliveries import DeliveryState
from tests.integration.webhooks.fleet import events_of, ids


async def test_what_happens_to_a_job_is_told_once_and_in_order(fleet):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    await fleet.worker()

    head = await fleet.ran()
    deliveries = await fleet.until_settled(webhook, 3)

    assert events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"]
    assert ids(receiver) == {f"{head.id}#{number}": 1 for number in (1, 4, 5)}
    assert {(one.number, one.state, one.attempts) for one in deliveries} == {(number, DeliveryState.DELIVERED, 1) for number in (1, 4, 5)}
    assert all(one.next_at is None for one in deliveries)
    completed = json.loads(receiver.received[-1].body)
    assert completed["cluster_id"] == "gpufleet-us-east-1"
    assert completed["job"] == {
        "name": "train",
        "namespace": "gco-jobs",
        "uid": "uid-1",
        "labels": {"team": "vision"},
        "status": "succeeded",
        "start_time": completed["job"]["start_time"],
        "completion_time": completed["job"]["completion_time"],
        "active": 0,
        "succeeded": 0,
        "failed": 0,
    }
    assert (completed["submitted_by"], completed["execution"]) == ("ada", 1)

"""The fleet's own door: a job in full, its logs, rejections and dead letters."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from datetime import UTC, datetime

import pytest

from shared.clusters.kept_logs import KeptLog, KeptLogs, log_key, write_index
from shared.errors import ConflictError, UnavailableError
from shared.jobs import transitions
from shared.queues.queue import Queue
from shared.settings import dead_letter_queue
from shared.store.rejections import Rejection
from tests.integration.api.conftest import serving
from tests.integration.api.test_queue_jobs import run, submit

FLEET = "/fleet/v1"


def moment(core, stamp):
    return transitions.Moment(now=core.clock.now(), stamp=stamp * 16)


async def keep(core, job_id, execution, **logs):
    """Keep logs as an observer does: container name to text."""
    kept = []
    for container, text in logs.items():
        key = log_key(job_id, execution, "pod-1", container)
        await core.objects.put(key, text.encode())
        kept.append(KeptLog(pod="pod-1", container=container, key=key, bytes=len(text)))
    index = KeptLogs(job_id=job_id, execution=execution, kept_at=datetime.now(UTC), containers=tuple(kept))
    await write_index(core.objects, index)


async def end(core, head):
    return await core.jobs.write(transitions.succeeded(head, None, moment(core, "4")))


class FakeReader:
    """A cluster's logs as they stand."""

    def __init__(self, *chunks, error=None):
        self.chunks = chunks
        self.error = error
        self.asked = []

    async def read(self, head, *, pod, container, tail):
        self.asked.append((head.id, pod, container, tail))
        if self.error is not None:
            raise self.error
        for chunk in self.chunks:
            yield chunk


async def test_a_job_is_told_in_full_without_its_claims_nonce(shared_client, shared_core):
    job_id = (await submit(shared_client, retry={"max_attempts": 3}))["job_id"]
    await run(shared_core, job_id)

    found = (await shared_client.get(f"{FLEET}/jobs/{job_id}")).json()

    assert (found["state"], found["retry"]["max_attempts"], found["execution"]) == ("running", 3, 1)
    assert found["claim"].keys() == {"owner", "claimed_at", "expires_at"}
    assert [execution["object"] for execution in found["executions"]] == [{"name": "train-x", "uid": "uid-1"}]
    assert "nonce" not in json.dumps(found)
    assert "stamp" not in found


async def test_events_and_executions_are_told_in_order(shared_client, shared_core):
    job_id = (await submit(shared_client))["job_id"]
    await end(shared_core, await run(shared_core, job_id))

    events = (await shared_client.get(f"{FLEET}/jobs/{job_id}/events")).json()["events"]
    executions = (await shared_client.get(f"{FLEET}/jobs/{job_id}/executions")).json()["executions"]

    assert [event["type"] for event in events] == ["submitted", "claimed", "committed", "running", "succeeded"]
    assert [event["number"] for event in events] == [1, 2, 3, 4, 5]
    assert [(execution["number"], execution["state"]) for execution in executions] == [(1, "succeeded")]


@pytest.mark.parametrize("part", ["", "/events", "/executions", "/logs", "/logs?follow=true"])
@pytest.mark.parametrize("job_id", ["x", "0198c0de-0000-7000-8000-0123456789ab"])
async def test_an_unknown_job_is_not_found(shared_client, part, job_id):
    assert (await shared_client.get(f"{FLEET}/jobs/{job_id}{part}")).status_code == 404


async def test_kept_logs_of_an_ended_job_are_read(shared_client, shared_core):
    job_id = (await submit(shared_client))["job_id"]
    await end(shared_core, await run(shared_core, job_id))
    await keep(shared_core, job_id, 1, main="one\ntwo\nthree\n")
    logs = f"{FLEET}/jobs/{job_id}/logs"

    whole = await shared_client.get(logs)
    tail = await shared_client.get(logs, params={"tail": 2})
    followed = await shared_client.get(logs, params={"follow": True})

    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.text == followed.text == "one\ntwo\nthree\n"
    assert tail.text == "two\nthree\n"


async def test_logs_of_several_containers_are_told_apart(shared_client, shared_core):
    job_id = (await submit(shared_client))["job_id"]
    await end(shared_core, await run(shared_core, job_id))
    await keep(shared_core, job_id, 1, main="a\n", sidecar="b\n")
    logs = f"{FLEET}/jobs/{job_id}/logs"

    assert (await shared_client.get(logs)).text == "==> pod-1/main <==\na\n==> pod-1/sidecar <==\nb\n"
    assert (await shared_client.get(logs, params={"container": "sidecar", "pod": "pod-1"})).text == "b\n"
    missing = await shared_client.get(logs, params={"container": "other"})
    assert missing.status_code == 404
    assert "pod-1/main, pod-1/sidecar" in missing.json()["detail"]


async def test_logs_that_are_not_there_are_said_to_be(shared_client, shared_core):
    queued = (await submit(shared_client))["job_id"]
    ended = (await submit(shared_client))["job_id"]
    await end(shared_core, await run(shared_core, ended))

    assert (await shared_client.get(f"{FLEET}/jobs/{queued}/logs")).status_code == 409
    assert (await shared_client.get(f"{FLEET}/jobs/{ended}/logs")).status_code == 404
    assert (await shared_client.get(f"{FLEET}/jobs/{ended}/logs", params={"execution": 2})).status_code == 404
    assert (await shared_client.get(f"{FLEET}/jobs/{ended}/logs", params={"execution": 0})).status_code == 422
    assert (await shared_client.get(f"{FLEET}/jobs/{ended}/logs", params={"tail": 0})).status_code == 422


async def test_live_logs_come_from_the_cluster(shared_client, shared_core):
    job_id = (await submit(shared_client))["job_id"]
    await run(shared_core, job_id)
    reader = FakeReader(b"one\n", b"two\n")

    async with serving(dataclasses.replace(shared_core, logs=reader)) as client:
        answer = await client.get(f"{FLEET}/jobs/{job_id}/logs", params={"tail": 5, "pod": "p", "container": "c"})

    assert answer.text == "one\ntwo\n"
    assert reader.asked == [(job_id, "p", "c", 5)]


@pytest.mark.parametrize(("error", "status"), [(ConflictError("not yet"), 409), (UnavailableError("no answer"), 503)])
async def test_a_cluster_that_has_no_log_yet_is_an_answer(shared_client, shared_core, error, status):
    job_id = (await submit(shared_client))["job_id"]
    await run(shared_core, job_id)

    async with serving(dataclasses.replace(shared_core, logs=FakeReader(error=error))) as client:
        assert (await client.get(f"{FLEET}/jobs/{job_id}/logs")).status_code == status
    assert (await shared_client.get(f"{FLEET}/jobs/{job_id}/logs")).status_code == 503


async def test_following_goes_on_over_a_retry(shared_client, shared_core):
    job_id = (await submit(shared_client, retry={"max_attempts": 2, "backoff_seconds": 0}))["job_id"]
    head = await run(shared_core, job_id)
    await keep(shared_core, job_id, 1, main="first\n")
    await keep(shared_core, job_id, 2, main="second\n")
    head = await shared_core.jobs.write(transitions.attempt_failed(head, "exit 1", None, moment(shared_core, "5")))
    head = await shared_core.jobs.write(transitions.ready(head, "now", moment(shared_core, "6")))
    await end(shared_core, await run(shared_core, job_id))

    followed = await shared_client.get(f"{FLEET}/jobs/{job_id}/logs", params={"follow": True, "execution": 1})
    latest = await shared_client.get(f"{FLEET}/jobs/{job_id}/logs")

    assert followed.text == "first\n"
    assert latest.text == "second\n"


async def test_rejections_are_listed_and_read(client, core):
    for number in range(3):
        rejection = Rejection(
            id=f"m{number}",
            reason="bad",
            message_id=f"m{number}",
            queue="q",
            rejected_at=datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC),
            excerpt="{",
        )
        await core.rejections.put(rejection)

    first = (await client.get(f"{FLEET}/rejections", params={"limit": 2})).json()
    rest = (await client.get(f"{FLEET}/rejections", params={"limit": 2, "cursor": first["next_cursor"]})).json()

    assert [one["id"] for one in first["rejections"] + rest["rejections"]] == ["m2", "m1", "m0"]
    assert rest["next_cursor"] is None
    assert (await client.get(f"{FLEET}/rejections/m1")).json()["reason"] == "bad"
    assert (await client.get(f"{FLEET}/rejections/m9")).status_code == 404
    assert (await client.get(f"{FLEET}/rejections", params={"cursor": "x"})).status_code == 422


@pytest.fixture
async def letters(fleet_resources):
    """Two dead letters of the submissions queue: its name and the letters' ids."""
    queue = fleet_resources.settings.submissions_queue
    dead = await Queue.open(fleet_resources.aws.sqs, dead_letter_queue(queue))
    return queue, [await dead.send(f"letter {number}", attributes={"reason": "bad"}) for number in range(2)]


async def test_dead_letters_are_counted_listed_and_shown(client, letters):
    queue, ids = letters

    queues = (await client.get(f"{FLEET}/dead-letters")).json()["queues"]
    listed = (await client.get(f"{FLEET}/dead-letters/{queue}")).json()["dead_letters"]
    shown = (await client.get(f"{FLEET}/dead-letters/{queue}/{ids[1]}")).json()

    assert {"queue": queue, "dead_letters": 2} in queues
    assert {letter["id"] for letter in listed} == set(ids)
    assert (shown["body"], shown["attributes"]["reason"]) == ("letter 1", "bad")


@pytest.mark.parametrize("path", ["nowhere", "nowhere/x"])
async def test_an_unknown_queue_is_not_found(shared_client, path):
    assert (await shared_client.get(f"{FLEET}/dead-letters/{path}")).status_code == 404


async def test_one_dead_letter_is_redriven_and_the_other_discarded(client, letters, fleet_resources):
    queue, ids = letters

    redriven = await client.post(f"{FLEET}/dead-letters/{queue}/redrive", json={"message_ids": [ids[0]]})
    discarded = await client.post(f"{FLEET}/dead-letters/{queue}/discard", json={"all": True})

    assert redriven.json() == {"queue": queue, "count": 1, "message_ids": [ids[0]]}
    assert discarded.json()["message_ids"] == [ids[1]]
    assert (await client.get(f"{FLEET}/dead-letters/{queue}")).json()["dead_letters"] == []
    waiting = await (await Queue.open(fleet_resources.aws.sqs, queue)).receive(wait_seconds=1)
    assert [message.body for message in waiting] == ["letter 0"]


@pytest.mark.parametrize("way", ["redrive", "discard"])
@pytest.mark.parametrize(
    "body", [{}, {"message_ids": []}, {"all": False}, {"all": True, "message_ids": ["x"]}, {"all": 1}, {"all": "true"}, {"ids": ["x"]}, []]
)
async def test_nothing_happens_unless_it_is_said_to_which(client, letters, way, body):
    """Case 23, of dead letters."""
    queue, ids = letters

    answer = await client.post(f"{FLEET}/dead-letters/{queue}/{way}", json=body)

    assert answer.status_code == 422
    assert len((await client.get(f"{FLEET}/dead-letters/{queue}")).json()["dead_letters"]) == len(ids)


async def test_an_unknown_dead_letter_is_not_found_and_the_others_stay(client, letters):
    queue, ids = letters

    answer = await client.post(f"{FLEET}/dead-letters/{queue}/discard", json={"message_ids": [ids[0], "unknown"]})

    assert answer.status_code == 404
    assert len((await client.get(f"{FLEET}/dead-letters/{queue}")).json()["dead_letters"]) == 2


async def test_the_schema_of_a_message_is_served(shared_client):
    schema = (await shared_client.get(f"{FLEET}/schemas/submission")).json()

    assert schema["$schema"].startswith("https://json-schema.org/")


async def test_a_follower_that_goes_away_is_let_go(shared_client, shared_core):
    job_id = (await submit(shared_client))["job_id"]
    await run(shared_core, job_id)

    async with serving(dataclasses.replace(shared_core, look_seconds=60)) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.get(f"{FLEET}/jobs/{job_id}/logs", params={"follow": True})

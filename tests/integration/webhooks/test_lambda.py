"""The webhook worker on Lambda: the same parts, an invocation at a time."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

from shared.errors import UnavailableError
from shared.store.endpoints import Endpoints
from shared.store.streams import TableStream
from shared.webhooks import deliveries as changes
from shared.webhooks.deliveries import DeliveryState
from shared.webhooks.lanes import Lanes
from tests.integration.webhooks.fleet import events_of, failing, ids, until
from tests.unit.webhooks.receivers import answering
from workers.webhooks.handler import EACH, deliver, sweep
from workers.webhooks.relay_handler import answer as relay


async def stream_event(fleet):
    """All that is in the stream, as Lambda hands it over."""
    stream = TableStream(fleet.aws.dynamodbstreams, fleet.aws.dynamodb, fleet.core.settings.table)
    arn = await stream.arn()
    (shard,) = await stream.shards(arn)
    answer = await fleet.aws.dynamodbstreams.get_records(ShardIterator=await stream.iterator(arn, shard, after=None))
    return {"Records": [json.loads(json.dumps(record, default=str)) for record in answer["Records"]]}


async def queue_event(parts):
    """What waits in the queue, as Lambda hands it over."""
    records = []
    while messages := await parts.queue.receive(wait_seconds=0):
        records += [{"messageId": message.id, "body": message.body, "receiptHandle": message.receipt} for message in messages]
    return {"Records": records}


async def test_the_whole_way_in_three_invocations(fleet):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver)
    parts = await fleet.parts()
    head = await fleet.ran()

    assert await relay(parts.relay, await stream_event(fleet)) == {"batchItemFailures": []}
    event = await queue_event(parts)
    assert len(event["Records"]) == 3
    assert await deliver(parts, event, seconds=10) == {"batchItemFailures": []}

    assert events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"]
    assert {one.state for one in (await fleet.deliveries.page(webhook.id, limit=10)).deliveries} == {DeliveryState.DELIVERED}
    assert await sweep(parts, seconds=1) == {"next": None}


async def test_messages_that_can_not_be_handled_now_come_again_and_no_others(fleet, monkeypatch):
    receiver = await fleet.receiver()
    await fleet.subscribe(receiver, events=("job.completed",))
    parts = await fleet.parts()
    good, bad = await fleet.ran(), await fleet.ran()
    tell = parts.handler._fanout.tell

    async def sometimes(job_id, *args):
        if job_id == bad.id:
            raise UnavailableError("throttled")
        return await tell(job_id, *args)

    parts.handler._fanout.tell = sometimes
    bodies = [{"job_id": head.id, "number": 5} for head in (good, bad)]
    event = {"Records": [{"messageId": body["job_id"], "body": json.dumps(body)} for body in bodies]}

    assert await deliver(parts, event, seconds=10) == {"batchItemFailures": [{"itemIdentifier": bad.id}]}
    assert ids(receiver) == {f"{good.id}#5": 1}


async def test_a_batch_of_the_stream_that_fails_comes_again_whole(fleet, monkeypatch):
    receiver = await fleet.receiver()
    await fleet.subscribe(receiver)
    parts = await fleet.parts()
    await fleet.ran()
    event = await stream_event(fleet)

    async def down(*args, **options):
        raise UnavailableError("SQS")

    monkeypatch.setattr(parts.queue, "send_all", down)
    first = event["Records"][0]["dynamodb"]["SequenceNumber"]
    assert await relay(parts.relay, event) == {"batchItemFailures": [{"itemIdentifier": first}]}


async def test_what_is_not_sent_when_the_time_is_over_is_given_back_and_swept(fleet, monkeypatch):
    slow = await fleet.silent()
    webhook = await fleet.subscribe(slow, events=("job.completed",))
    parts = await fleet.parts()
    head = await fleet.ran()
    body = json.dumps({"job_id": head.id, "number": 5})

    monkeypatch.setattr("workers.webhooks.handler.MARGIN_SECONDS", 2.1)
    assert await deliver(parts, {"Records": [{"messageId": "m", "body": body}]}, seconds=0.2) == {"batchItemFailures": []}

    waits = await fleet.delivery(webhook, head, 5)
    assert (waits.state, waits.attempts) == (DeliveryState.PENDING, 0)
    assert waits.next_at <= fleet.moment().now


async def test_a_sweep_sends_what_is_due_and_says_when_the_next_is(fleet):
    receiver = await fleet.receiver()
    webhook = await fleet.subscribe(receiver, events=("job.completed",))
    parts = await fleet.parts()
    heads = [await fleet.ran(), await fleet.ran()]
    for head in heads:
        await parts.handler._fanout.tell(head.id, {5})
    await parts.courier.lanes.idle()
    first, second = [await fleet.delivery(webhook, head, 5) for head in heads]
    await fleet.deliveries.write(first, changes.redelivered(first, fleet.moment()))
    later = changes.redelivered(second, fleet.moment()).model_copy(update={"next_at": fleet.moment().now + changes.LIFETIME / 2})
    await fleet.deliveries.write(second, later)

    told = await sweep(parts, seconds=10)

    assert told == {"next": later.next_at.isoformat()}
    assert ids(receiver) == {f"{heads[0].id}#5": 2, f"{heads[1].id}#5": 1}


def batches(heads, size, *, number=1):
    """Batches of the queue `events`, as Lambda hands them over."""
    records = [{"messageId": head.id, "body": json.dumps({"job_id": head.id, "number": number}), "receiptHandle": "r"} for head in heads]
    return [{"Records": records[first : first + size]} for first in range(0, len(records), size)]


async def test_many_containers_at_once_spare_a_sick_endpoint_together(fleet):
    """Each knows nothing of the others but what is in the table."""

    async def overloaded(request, writer):
        await asyncio.sleep(0.3)
        await answering("503 Busy")(request, writer)

    busy, well = await fleet.receiver(overloaded), await fleet.receiver()
    sick = await fleet.subscribe(busy, events=("job.queued",))
    await fleet.subscribe(well, events=("job.queued",))
    containers = [await fleet.parts(lanes=Lanes(each=EACH)) for _ in range(20)]

    async def invoke(events):
        answers = await asyncio.gather(
            *(deliver(parts, event, seconds=30) for parts, event in zip(containers, events, strict=True)),
        )
        assert answers == [{"batchItemFailures": []}] * len(containers)

    first = await asyncio.gather(*(fleet.job() for _ in range(100)))
    await invoke(batches(first, 5))
    assert ids(well) == {f"{head.id}#1": 1 for head in first}
    assert busy.connections <= 60  # two of each container were under way when it became known, and some more
    assert (await Endpoints(fleet.table).get(sick.id)).paused_until is not None

    before = busy.connections
    second = await asyncio.gather(*(fleet.job() for _ in range(100)))
    await invoke(batches(second, 5))
    assert ids(well) == {f"{head.id}#1": 1 for head in (*first, *second)}
    assert busy.connections <= before + 1  # a trial, where the pause was over meanwhile
    deliveries = (await fleet.deliveries.page(sick.id, limit=1000)).deliveries
    assert {one.state for one in deliveries} == {DeliveryState.PENDING}
    assert len(deliveries) == 200


async def test_an_event_that_can_not_be_read_holds_up_none_behind_it(fleet):
    receiver = await fleet.receiver()
    await fleet.subscribe(receiver)
    parts = await fleet.parts()
    head = await fleet.ran()
    event = await stream_event(fleet)
    poisoned = next(record for record in event["Records"] if record["dynamodb"]["Keys"]["sk"]["S"].endswith("EVENT#00000004"))
    poisoned["dynamodb"]["NewImage"]["type"] = {"S": "of a later release"}

    assert await relay(parts.relay, event) == {"batchItemFailures": []}
    numbers = {json.loads(record["body"])["number"] for record in (await queue_event(parts))["Records"]}
    assert numbers == {1, 5}
    assert await deliver(parts, batches([head], 1, number=5)[0], seconds=10) == {"batchItemFailures": []}
    assert events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"]  # who tells one tells those before it too


async def test_what_hangs_does_not_hold_up_what_comes_due_meanwhile(fleet, monkeypatch):
    monkeypatch.setattr(changes, "FIRST_RETRY", timedelta(seconds=0.5))
    monkeypatch.setattr("workers.webhooks.handler.AGAIN_SECONDS", 0.2)
    hanging, flaky = await fleet.silent(), await fleet.receiver(failing(1))
    for receiver in (hanging, flaky):
        await fleet.subscribe(receiver, events=("job.queued",))
    parts = await fleet.parts()
    head = await fleet.job()
    await parts.handler._fanout.tell(head.id, {1})

    sweeping = asyncio.create_task(sweep(parts, seconds=20))
    await until(lambda: ids(flaky) == {f"{head.id}#1": 2}, seconds=8)
    assert hanging.connections == 1
    assert not hanging.ended.is_set()  # it hangs still, for ten seconds
    assert not sweeping.done()
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)
    await parts.courier.close(grace_seconds=0)

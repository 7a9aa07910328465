"""The packages behind queues and the table's stream: what is named in the answer comes again, and nothing else does."""

from __future__ import annotations

import json

import pytest

from shared.queues.queue import Queue
from shared.settings import dead_letter_queue
from shared.store.rejections import Rejections
from shared.store.streams import TableStream
from tests.infra.lambdas.events import batch, stream
from tests.infra.lambdas.usage import ledger
from tests.integration.api.conftest import submission
from tests.integration.webhooks.fleet import events_of, running_fleet

pytestmark = pytest.mark.infra

NONE: dict = {"batchItemFailures": []}


def left(*identifiers):
    return {"batchItemFailures": [{"itemIdentifier": identifier} for identifier in identifiers]}


async def lose_dead_letters(aws, queue):
    """The queue of dead letters goes away, so that what means nothing can't be put there."""
    url = (await aws.sqs.get_queue_url(QueueName=dead_letter_queue(queue)))["QueueUrl"]
    await aws.sqs.delete_queue(QueueUrl=url)


@pytest.fixture
async def fleet(fleet_resources):
    async with running_fleet(fleet_resources) as running:
        yield running


async def test_ingest_accepts_and_rejects_and_leaves_what_it_can_not_do_now(deployed, fleet):
    settings, aws = fleet.core.settings, fleet.aws
    ingest = await deployed("ingest")
    queue = settings.submissions_queue
    event = batch(queue, submission(), {"manifest": {}, "reference": "mine"}, "{", identifiers=["good", "refused", "broken"])

    assert await ingest(event) == NONE
    assert await ingest(event) == NONE  # all of it once more, as SQS may
    counted = await aws.dynamodb.scan(
        TableName=settings.table, FilterExpression="sk = :head", ExpressionAttributeValues={":head": {"S": "HEAD"}}
    )
    assert counted["Count"] == 1
    rejections = Rejections(fleet.table)
    assert (await rejections.get("refused")).reference == "mine"

    await lose_dead_letters(aws, queue)
    event = batch(queue, submission(), {"manifest": {}}, identifiers=["another", "not-buried"])
    assert await ingest(event) == left("not-buried")


async def test_events_of_the_stream_become_messages_and_these_deliveries(deployed, fleet):
    settings, aws = fleet.core.settings, fleet.aws
    receiver = await fleet.receiver()
    await fleet.subscribe(receiver)
    relay = await deployed("webhooks-relay")
    webhooks = await deployed("webhooks", GPUFLEET_WEBHOOK_LOCAL="true")
    head = await fleet.ran()

    reader = TableStream(aws.dynamodbstreams, aws.dynamodb, settings.table)
    arn = await reader.arn()
    (shard,) = await reader.shards(arn)
    found = await aws.dynamodbstreams.get_records(ShardIterator=await reader.iterator(arn, shard, after=None))
    assert await relay(stream(found["Records"], settings.table)) == NONE

    queue = await Queue.open(aws.sqs, settings.events_queue)
    bodies = []
    while messages := await queue.receive(wait_seconds=0):
        bodies += [message.body for message in messages]
    assert len(bodies) == 3
    assert await webhooks(batch(settings.events_queue, *bodies, "nonsense")) == NONE
    assert events_of(receiver, head.id) == ["job.queued", "job.started", "job.completed"]

    await lose_dead_letters(aws, settings.events_queue)
    another = await fleet.ran()
    told = (await fleet.deliveries.page((await fleet.webhooks.page(limit=1)).webhooks[0].id, limit=1)).deliveries
    assert told
    event = batch(settings.events_queue, _message(another.id, 1), "nonsense", identifiers=["good", "not-buried"])
    assert await webhooks(event) == left("not-buried")
    assert events_of(receiver, another.id)[:1] == ["job.queued"]


def _message(job_id, number):
    return json.dumps({"job_id": job_id, "number": number})


async def test_a_report_is_made_for_a_message_and_what_means_nothing_is_buried(deployed, fleet, fleet_resources):
    settings, aws = fleet.core.settings, fleet.aws
    await ledger(fleet_resources, hours=1)
    costs = await deployed("costs", settings=settings.model_copy(update={"regions": ("us-east-1",)}))
    event = batch(settings.tasks_queue, {"task": "cost_window"}, {"task": "dance"}, identifiers=["good", "dead"])

    assert await costs(event) == NONE
    listed = await aws.s3.list_objects_v2(Bucket=settings.bucket, Prefix="reports/")
    assert listed["KeyCount"] == 1

    await lose_dead_letters(aws, settings.tasks_queue)
    assert await costs(event) == left("dead")

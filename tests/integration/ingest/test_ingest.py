"""Messages of the submissions queue: jobs, rejections, dead letters."""

from __future__ import annotations

import asyncio
import json

import pytest

from shared.errors import UnavailableError
from shared.queues.dead_letters import DeadLetters
from shared.queues.queue import Queue
from shared.queues.submissions import MAX_OBJECT_BYTES
from shared.store.rejections import Rejections
from shared.store.table import Table
from tests.integration.api.conftest import manifest, submission
from workers import assembly
from workers.ingest.handler import answer
from workers.ingest.ingest import Outcome, build
from workers.ingest.loop import IngestLoop


class Room:
    """One ingest worker and what is around it."""

    def __init__(self, resources, core, queue, ingest):
        self.aws = resources.aws
        self.settings = resources.settings
        self.core = core
        self.queue = queue
        self.ingest = ingest
        self.loop = IngestLoop(queue=queue, ingest=ingest, grace_seconds=5)
        self.rejections = Rejections(core.table)
        self.dead_letters = DeadLetters(resources.aws.sqs, resources.settings)

    async def drop(self, *bodies, **message):
        """Drop bodies on the queue, as a producer would."""
        for body in bodies:
            text = body if isinstance(body, str) else json.dumps(body)
            await self.aws.sqs.send_message(QueueUrl=self.queue.url, MessageBody=text, **message)

    async def take(self):
        """Handle one batch of what is on the queue."""
        return await self.loop.batch(await self.queue.receive(wait_seconds=1))

    async def jobs(self, region="us-east-1"):
        return [entry.job_id for entry in await self.core.store.ready(region, 100)]

    async def rejected(self):
        return (await self.rejections.page()).rejections

    async def dead(self):
        return await self.dead_letters.peek(self.settings.submissions_queue)

    async def waiting(self):
        """How many messages the queue still has, seen or unseen."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = await self.aws.sqs.get_queue_attributes(QueueUrl=self.queue.url, AttributeNames=names)
        return sum(int(found["Attributes"][name]) for name in names)


@pytest.fixture
async def room(fleet_resources):
    core = await assembly.assemble(fleet_resources.settings, fleet_resources.aws)
    queue = await Queue.open(fleet_resources.aws.sqs, fleet_resources.settings.submissions_queue)
    return Room(fleet_resources, core, queue, await build(fleet_resources.settings, fleet_resources.aws))


async def test_a_message_becomes_a_job_and_is_deleted(room):
    await room.drop(submission(priority=3, reference="order 7"))

    assert await room.take() == [Outcome.ACCEPTED]
    [job_id] = await room.jobs()
    assert (await room.core.store.head(job_id)).priority == 3
    assert await room.waiting() == 0


async def test_a_job_records_who_sent_its_message(room):
    """SQS says it, as an id of IAM; nothing in the message could."""
    await room.drop(submission(), MessageAttributes={"SenderId": {"DataType": "String", "StringValue": "somebody else"}})
    [message] = await room.queue.receive(wait_seconds=1)
    await room.loop.batch([message])
    [job_id] = await room.jobs()

    assert message.sender
    assert (await room.core.store.head(job_id)).submitted_by == f"sqs:{message.sender}"


async def test_a_message_that_comes_twice_is_one_job(room):
    await room.drop(submission())
    [message] = await room.queue.receive(wait_seconds=1)

    assert await room.ingest.handle_all([message, message, message]) == [Outcome.ACCEPTED] * 3
    assert len(await room.jobs()) == 1


async def test_a_key_of_the_producer_makes_two_messages_one_job(room):
    await room.drop(submission(idempotency_key="order-7"), submission(idempotency_key="order-7"))

    assert await room.take() == [Outcome.ACCEPTED] * 2
    assert len(await room.jobs()) == 1


async def test_the_same_key_with_another_body_is_a_rejection(room):
    await room.drop(submission(idempotency_key="order-7"))
    await room.take()
    [job_id] = await room.jobs()
    await room.drop(submission(idempotency_key="order-7", priority=9, reference="second"))

    assert await room.take() == [Outcome.REJECTED]
    [rejection] = await room.rejected()
    reason = f"job ID or idempotency key is already in use: 'order-7' stands for job {job_id}, which another request made"
    assert (rejection.reference, rejection.reason) == ("second", reason)
    assert [(problem.pointer, problem.value, problem.rule) for problem in rejection.problems] == [("/idempotency_key", "order-7", reason)]


async def test_a_refused_message_is_recorded_and_a_dead_letter(room):
    bad = submission(manifest=manifest(image="evil/miner"), target_region="mars-north-1", reference="order 7")
    await room.drop(bad)

    assert await room.take() == [Outcome.REJECTED]
    [rejection] = await room.rejected()
    assert [problem.pointer for problem in rejection.problems] == [
        "/target_region",
        "/manifest/spec/template/spec/containers/0/image",
    ]
    assert (rejection.reference, rejection.queue) == ("order 7", room.settings.submissions_queue)
    assert json.dumps(bad).startswith(rejection.excerpt)
    [letter] = await room.dead()
    assert json.loads(letter.body) == bad
    assert letter.attributes["message_id"] == rejection.message_id == rejection.id
    assert letter.attributes["reason"].startswith("2 rules are broken; the first: /target_region")
    assert await room.waiting() == 0
    assert await room.jobs() == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "must be JSON"),
        ("hello", "must be JSON"),
        ("[]", "must be an object"),
        ("null", "must be an object"),
        ('{"priority": 1, "priority": 2}', "only once"),
        ('{"priority": NaN}', "finite"),
        ('"' + "x" * 100_000, "must be JSON"),
        ("[" * 5000, "nested"),
        ({"manifest": {}, "target_region": "us-east-1", "surplus": 1}, "must be left out"),
        ({"s3": {"bucket": "a-bucket", "key": "k"}, "manifest": {}}, "must be left out"),
        ({"s3": {"bucket": "BAD BUCKET", "key": "k"}}, "pattern"),
        (submission(namespace="kube-system"), "not allowed"),
        (submission(idempotency_key="a b"), "pattern"),
        (submission(priority=True), "whole number"),
    ],
    ids=range(14),
)
async def test_a_message_that_can_never_be_a_job_says_why(room, body, reason):
    await room.drop(body)

    assert await room.take() == [Outcome.REJECTED]
    [rejection] = await room.rejected()
    assert reason in rejection.reason
    assert len(rejection.excerpt.encode()) <= 2048
    assert len(await room.dead()) == 1


async def test_wrong_fields_and_a_wrong_manifest_are_told_together(room):
    await room.drop(submission(manifest=manifest(image="evil/miner"), priority="5"))

    await room.take()
    [rejection] = await room.rejected()
    assert [problem.pointer for problem in rejection.problems] == ["/priority", "/manifest/spec/template/spec/containers/0/image"]


async def test_all_that_is_wrong_with_a_message_is_in_its_rejection(room):
    await room.drop(submission(manifest=manifest(image="evil/miner"), namespace="kube-system", target_region="mars-1", priority=True))

    await room.take()
    [rejection] = await room.rejected()
    assert [(problem.pointer, problem.value) for problem in rejection.problems] == [
        ("/priority", True),
        ("/target_region", "mars-1"),
        ("/manifest/spec/template/spec/containers/0/image", "evil/miner"),
        ("/namespace", "kube-system"),
    ]


async def test_every_refusal_has_problems(room):
    value = json.dumps(submission(manifest=manifest(env=[{"name": "DATA", "value": "x" * 1_500_000}])))
    await room.aws.s3.put_object(Bucket=room.settings.bucket, Key="job.json", Body=value.encode())
    await room.aws.s3.put_object(Bucket=room.settings.bucket, Key="huge.json", Body=b" " * (MAX_OBJECT_BYTES + 1))
    places = {"job.json": "/manifest", "huge.json": "/s3"}
    for key in places:
        await room.drop({"s3": {"bucket": room.settings.bucket, "key": key}, "reference": key})
    await room.drop(submission(namespace="kube-system", reference="namespace"))

    while len(await room.rejected()) < 3:
        await room.take()
    found = {rejection.reference: [(one.pointer, one.value) for one in rejection.problems] for rejection in await room.rejected()}
    assert found == {key: [(place, None)] for key, place in places.items()} | {"namespace": [("/namespace", "kube-system")]}


@pytest.mark.parametrize(
    ("body", "reference"),
    [
        ('{"priority": NaN, "reference": "order 7"}', "order 7"),
        ('{"reference": "a", "reference": "order 7"}', "order 7"),
        ('{"namespace": "a\\u0000b", "reference": "order 7"}', "order 7"),
        ('{"reference": "\\ud800"}', "?"),
        ('{"manifest": ' + "[" * 60 + "]" * 60 + ', "reference": "order 7"}', "order 7"),
        ('{"manifest": ' + "[" * 5000 + "]" * 5000 + ', "reference": "order 7"}', "order 7"),
        ('{"priority": ' + "9" * 5000 + ', "reference": "order 7"}', "order 7"),
        ('{"reference": "order 7"', None),
        ("hello", None),
        ("[]", None),
        ('{"reference": 5}', None),
    ],
    ids=range(11),
)
async def test_the_reference_of_a_message_is_kept_however_wrong_it_is(room, body, reference):
    await room.drop(body)

    assert await room.take() == [Outcome.REJECTED]
    [rejection] = await room.rejected()
    assert rejection.reference == reference


async def test_a_job_in_s3_is_taken(room):
    value = "x" * 1_400_000
    body = json.dumps(submission(manifest=manifest(env=[{"name": "DATA", "value": value}])))
    await room.aws.s3.put_object(Bucket=room.settings.bucket, Key="incoming/job.json", Body=body.encode())
    await room.drop({"s3": {"bucket": room.settings.bucket, "key": "incoming/job.json"}, "reference": "big"})

    assert await room.take() == [Outcome.ACCEPTED]
    assert len(await room.jobs()) == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there must be such an object"),
        (b" " * (MAX_OBJECT_BYTES + 1), "limit is 6291456"),
        (b"{", "must be JSON"),
        (b"", "is empty"),
    ],
)
async def test_a_pointer_to_no_good_object_is_rejected(room, content, reason):
    if content is not None:
        await room.aws.s3.put_object(Bucket=room.settings.bucket, Key="job.json", Body=content)
    await room.drop({"s3": {"bucket": room.settings.bucket, "key": "job.json"}, "reference": "big"})

    assert await room.take() == [Outcome.REJECTED]
    [rejection] = await room.rejected()
    assert reason in rejection.reason
    assert rejection.reference == "big"


async def test_while_the_table_does_not_answer_a_message_is_left(room, monkeypatch):
    async def away(*_, **__):
        raise UnavailableError("throttled")

    await room.drop(submission(), "{")
    with monkeypatch.context() as broken:
        for operation in ("put", "transact"):
            broken.setattr(Table, operation, away)
        assert await room.take() == [Outcome.LEFT] * 2
    assert await room.dead() == []
    assert await room.waiting() == 2


async def test_while_the_dead_letters_can_not_be_sent_a_refused_message_is_left(room, monkeypatch):
    async def away(*_, **__):
        raise UnavailableError("no answer")

    await room.drop("{")
    with monkeypatch.context() as broken:
        broken.setattr(Queue, "send", away)
        assert await room.take() == [Outcome.LEFT]
    assert await room.waiting() == 1
    assert len(await room.rejected()) == 1


async def test_one_bad_message_does_not_hold_up_nine_good_ones(room):
    await room.drop(*(submission() for _ in range(9)), "{")

    outcomes = []
    while len(outcomes) < 10:
        outcomes += await room.take()
    assert sorted(outcomes) == [Outcome.ACCEPTED] * 9 + [Outcome.REJECTED]
    assert len(await room.jobs()) == 9


async def test_ten_messages_cost_ten_transactions_one_deletion_and_few_bells(room):
    await room.drop(*(submission() for _ in range(10)))
    messages = await room.queue.receive(wait_seconds=1)
    while len(messages) < 10:
        messages += await room.queue.receive(10 - len(messages), wait_seconds=1)
    calls = []
    for client in (room.aws.dynamodb, room.aws.sqs):
        client.meta.events.register("before-call.*.*", lambda model, **_: calls.append(model.name))

    await room.loop.batch(messages)

    assert calls.count("TransactWriteItems") == 10
    assert calls.count("DeleteMessageBatch") == 1
    assert calls.count("SendMessage") <= 2
    assert len(calls) <= 13


async def test_redriving_a_dead_letter_tries_it_again(room):
    await room.drop(submission(namespace="kube-system"))
    await room.take()

    moved = await room.dead_letters.redrive(room.settings.submissions_queue, None)

    assert len(moved) == 1
    assert await room.take() == [Outcome.REJECTED]
    assert len(await room.rejected()) == 2


async def test_on_lambda_only_what_was_left_comes_again(room, monkeypatch):
    async def away(*_, **__):
        raise UnavailableError("no answer")

    def record(number, body):
        return {"messageId": f"m{number}", "receiptHandle": "r", "body": body, "attributes": {"ApproximateReceiveCount": "2"}}

    good = await answer(room.ingest, {"Records": [record(1, json.dumps(submission())), record(2, "{")]})
    with monkeypatch.context() as broken:
        broken.setattr(Table, "transact", away)
        bad = await answer(room.ingest, {"Records": [record(3, json.dumps(submission()))]})

    assert good == {"batchItemFailures": []}
    assert bad == {"batchItemFailures": [{"itemIdentifier": "m3"}]}


async def test_the_loop_takes_what_comes_and_ends_when_asked(room):
    stop = asyncio.Event()
    handled = asyncio.Event()
    handle = room.ingest.handle_all

    async def handle_and_tell(messages):
        outcomes = await handle(messages)
        handled.set()
        return outcomes

    room.ingest.handle_all = handle_and_tell
    await room.drop(submission())
    running = asyncio.create_task(room.loop.run(stop))
    async with asyncio.timeout(20):
        await handled.wait()
        stop.set()
        await running

    assert len(await room.jobs()) == 1
    assert await room.waiting() == 0

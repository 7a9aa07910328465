"""Reading the table's stream: by one at a time, from where the last one stopped, and what has been lost is told."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from structlog.testing import capture_logs

from shared.clock import SystemClock
from shared.errors import UnavailableError
from shared.store.streams import Checkpoint, Checkpoints, TableStream
from tests.integration.webhooks.fleet import until
from workers.webhooks.relay import Relay
from workers.webhooks.stream_loop import StreamLoop


class Passed(Relay):
    """Keeps what it is to pass on."""

    def __init__(self):
        self.events = []

    async def pass_on(self, events):
        self.events += events
        return len(events)

    @property
    def told(self):
        return [(event.job_id, event.number) for event in self.events]


class Stream:
    """A stream's client that can be told to fail, by operation."""

    def __init__(self, inner):
        self._inner = inner
        self.failures = {}
        self.calls = []

    def __getattr__(self, name):
        async def call(**request):
            self.calls.append((name, request))
            failures = self.failures.get(name)
            if failures:
                raise failures.pop(0)
            return await getattr(self._inner, name)(**request)

        return call


def refusal(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Any")


@pytest.fixture
def client(fleet):
    return Stream(fleet.aws.dynamodbstreams)


@pytest.fixture
def loops(fleet, client):
    """Starts loops by the name of their owner; they end with the test."""

    class Loops:
        def __init__(self):
            self.tasks = []

        def start(self, owner, *, lease=timedelta(seconds=0.6), clock=None, **options):
            relay, stop = Passed(), asyncio.Event()
            stream = TableStream(client, fleet.aws.dynamodb, fleet.core.settings.table)
            clock = clock or SystemClock()
            loop = StreamLoop(stream=stream, table=fleet.table, relay=relay, owner=owner, clock=clock, lease=lease, **options)
            task = asyncio.create_task(loop.run(stop))
            self.tasks.append(task)
            return relay, stop, task

    return Loops()


@pytest.fixture(autouse=True)
async def ending(loops):
    yield
    for task in loops.tasks:
        task.cancel()
    await asyncio.gather(*loops.tasks, return_exceptions=True)


def numbered(head):
    """The keys of all events of a job that has run."""
    return [(head.id, number) for number in range(1, head.revision + 1)]


async def checkpoint(fleet):
    stream = TableStream(fleet.aws.dynamodbstreams, fleet.aws.dynamodb, fleet.core.settings.table)
    arn = await stream.arn()
    checkpoints = Checkpoints(fleet.table, arn.rpartition("/")[2])
    return checkpoints, (await checkpoints.all())


async def test_every_event_is_passed_on_in_order_and_nothing_else(fleet, loops):
    head = await fleet.ran()
    relay, _, _ = loops.start("one")
    await until(lambda: len(relay.told) >= 5)
    other = await fleet.ran()
    await until(lambda: len(relay.told) >= 10)

    assert relay.told == numbered(head) + numbered(other)


async def test_a_shard_is_read_by_one_at_a_time_and_by_the_next_when_he_ends(fleet, loops):
    first, stop, task = loops.start("one", lease=timedelta(seconds=30))
    head = await fleet.ran()
    await until(lambda: len(first.told) == 5)
    second, _, _ = loops.start("two", lease=timedelta(seconds=30))
    again = await fleet.ran()
    await until(lambda: len(first.told) == 10)
    assert second.told == []

    stop.set()
    await task
    third, _, _ = loops.start("three")
    last = await fleet.ran()
    await until(lambda: len(third.told) == 5)

    assert first.told == numbered(head) + numbered(again)
    assert third.told == numbered(last)


async def test_what_one_who_died_had_read_and_not_noted_is_read_again_when_his_lease_is_over(fleet, loops):
    first, _, task = loops.start("one", lease=timedelta(seconds=1))
    head = await fleet.ran()
    await until(lambda: len(first.told) == 5)
    task.cancel()

    second, _, _ = loops.start("two")
    await until(lambda: set(numbered(head)) <= set(second.told))


async def test_what_can_not_be_passed_on_now_is_passed_on_later_and_once(fleet, loops):
    relay, _, _ = loops.start("one")
    passing, failures = relay.pass_on, [UnavailableError("no")] * 2

    async def sometimes(events):
        if events and failures:
            raise failures.pop()
        return await passing(events)

    relay.pass_on = sometimes
    head = await fleet.ran()
    await until(lambda: len(relay.told) >= 5)
    assert (relay.told, failures) == (numbered(head), [])


@pytest.mark.parametrize("code", ["ExpiredIteratorException", "TrimmedDataAccessException"])
async def test_an_iterator_that_is_no_more_is_replaced(fleet, loops, client, code):
    client.failures["get_records"] = [refusal(code)]
    relay, _, _ = loops.start("one")
    head = await fleet.ran()
    await until(lambda: len(relay.told) >= 5)
    assert relay.told == numbered(head)


async def test_a_stream_that_does_not_answer_is_asked_again(fleet, loops, client):
    failure = EndpointConnectionError(endpoint_url="x")
    client.failures |= {"describe_stream": [failure], "get_shard_iterator": [failure], "get_records": [refusal("LimitExceededException")]}
    relay, _, _ = loops.start("one")
    head = await fleet.ran()
    await until(lambda: len(relay.told) >= 5)
    assert relay.told == numbered(head)


async def test_what_nobody_read_for_more_than_a_day_is_lost_and_told_in_the_log(fleet, loops, client):
    checkpoints, standing = await checkpoint(fleet)
    assert standing == {}
    arn = await TableStream(client, fleet.aws.dynamodb, fleet.core.settings.table).arn()
    (shard,) = await TableStream(client, fleet.aws.dynamodb, fleet.core.settings.table).shards(arn)
    now = SystemClock().now()
    assert await checkpoints.take(shard, owner="old", now=now - timedelta(days=3), until=now - timedelta(days=2)) is not None
    await checkpoints.keep(
        Checkpoint(shard=shard, owner="old", until=now - timedelta(days=2), sequence="1" * 21, seen_at=now - timedelta(days=2))
    )
    head = await fleet.ran()
    with capture_logs() as logs:
        relay, _, _ = loops.start("one")
        await until(lambda: len(relay.told) >= 5)

    lost = [line for line in logs if line["event"] == "events lost to webhooks"]
    assert lost
    assert abs(lost[0]["lost_seconds"] - 86_400) < 60
    assert relay.told == numbered(head)


async def test_a_shard_that_is_closed_is_read_to_its_end_and_never_again(fleet, loops):
    """The stream is made anew: the old one's shard is closed, and the new one's is read from its beginning."""
    relay, _, _ = loops.start("one")
    head = await fleet.ran()
    await until(lambda: len(relay.told) == 5)
    dynamodb, name = fleet.aws.dynamodb, fleet.core.settings.table
    checkpoints, _ = await checkpoint(fleet)
    await dynamodb.update_table(TableName=name, StreamSpecification={"StreamEnabled": False})
    await dynamodb.update_table(TableName=name, StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"})
    other = await fleet.ran()

    await until(lambda: len(relay.told) == 10)
    assert relay.told == numbered(head) + numbered(other)
    (closed,) = (await until(lambda: closed_ones(checkpoints))).values()
    assert await checkpoints.take(closed.shard, owner="two", now=SystemClock().now() + timedelta(days=1), until=closed.until) is None


async def closed_ones(checkpoints):
    return {shard: one for shard, one in (await checkpoints.all()).items() if one.closed}


async def test_reading_costs_no_write_of_the_table_but_a_checkpoint_now_and_then(fleet, loops):
    calls = []
    fleet.table._meter = lambda operation, units: calls.append(operation)
    relay, _, _ = loops.start("one", lease=timedelta(seconds=60))
    await until(lambda: calls)
    await fleet.job()
    await until(lambda: relay.told)

    assert [call for call in calls if call not in ("put_item", "transact_write_items")] == ["query", "update_item"]


class Hands:
    """A clock that is set by hand."""

    def __init__(self):
        self.ahead = timedelta()

    def now(self):
        return SystemClock().now() + self.ahead


async def test_a_checkpoint_is_written_in_a_third_of_the_lease_after_events_and_in_two_thirds_without(fleet, loops, client):
    calls, clock = [], Hands()
    fleet.table._meter = lambda operation, units: calls.append(operation)

    def written():
        return calls.count("put_item")

    async def some_reads():
        wanted = len(client.calls) + 5
        await until(lambda: len(client.calls) >= wanted)

    relay, _, _ = loops.start("one", lease=timedelta(hours=3), clock=clock, idle_seconds=0.01)
    await some_reads()
    clock.ahead += timedelta(minutes=110)
    await some_reads()
    assert written() == 0
    clock.ahead += timedelta(minutes=15)
    await until(lambda: written() == 1)

    await some_reads()  # his own checkpoint comes by, and is no event
    clock.ahead += timedelta(minutes=65)
    await some_reads()
    assert written() == 1
    head = await fleet.job()
    await until(lambda: relay.told == [(head.id, 1)])
    await until(lambda: written() == 2)

    await some_reads()
    clock.ahead += timedelta(minutes=55)
    await some_reads()
    assert written() == 2


async def test_one_who_waits_takes_the_shard_of_one_who_died_when_his_lease_ends(fleet, loops, client):
    """However seldom new shards are looked for."""
    first, _, task = loops.start("one", lease=timedelta(seconds=2))
    head = await fleet.ran()
    await until(lambda: len(first.told) == 5)
    second, _, _ = loops.start("two", lease=timedelta(hours=1), look_seconds=3600)
    await until(lambda: [name for name, _ in client.calls].count("describe_stream") == 2)
    task.cancel()

    await until(lambda: set(numbered(head)) <= set(second.told), seconds=10)

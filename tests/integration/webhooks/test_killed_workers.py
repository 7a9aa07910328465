"""Workers that are killed at every one of their calls: each event arrives at least once, under one id, in order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.webhooks.deliveries import DeliveryState
from shared.webhooks.ports import Answer
from tests.integration.webhooks.fleet import events_of, ids, running_fleet

_IDLE = {"get_records", "get_shard_iterator", "describe_stream", "describe_table", "receive_message", "get_queue_url"}
"""Calls that change nothing and that a worker makes as long as it lives."""


class Killing:
    """Counts the calls of one worker, and holds the one at which it is to be killed: before it is made, or when it has been made and nobody
    has heard of it. After that nothing gets through any more."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left = at
        self._after = after
        self.reached = asyncio.Event()

    async def call(self, make, *, counts=True):
        if self.reached.is_set():
            await asyncio.Event().wait()
        self._left -= counts
        if not counts or self._left:
            return await make()
        if self._after:
            await make()
        self.reached.set()
        return await asyncio.Event().wait()


class KillingClient:
    """An AWS client of a worker that is to be killed."""

    def __init__(self, inner, killing):
        self._inner = inner
        self._killing = killing

    def __getattr__(self, name):
        async def call(**request):
            return await self._killing.call(lambda: getattr(self._inner, name)(**request), counts=name not in _IDLE)

        return call


class ShortPolls:
    """SQS whose messages are out of sight for a second only: the long poll of a worker that was killed may still have taken one."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def receive_message(self, **request):
        return await self._inner.receive_message(**request | {"WaitTimeSeconds": 1, "VisibilityTimeout": 1})


class KillingSender:
    """A sender that may be killed before it sends, or when it has sent and not heard of it."""

    def __init__(self, inner, killing):
        self._inner = inner
        self._killing = killing

    async def send(self, webhook, message) -> Answer:
        return await self._killing.call(lambda: self._inner.send(webhook, message))


@pytest.fixture
async def frail(fleet_resources, monkeypatch):
    """A fleet with leases of a second, whose workers finish nothing when they are killed."""
    monkeypatch.setattr("shared.webhooks.waiting.AFTER_EARLIER", timedelta(seconds=0.3))
    async with running_fleet(fleet_resources, webhook_lease_seconds=0.6, webhook_stream_lease_seconds=0.6, shutdown_seconds=0.001) as fleet:
        fleet.aws = replace(fleet.aws, sqs=ShortPolls(fleet.aws.sqs))
        yield fleet


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_worker_that_is_killed_at_a_call_leaves_nothing_untold(frail, after):
    """Every fourth of its calls, so that the test is short."""
    await killed_at(frail, range(2, 100, 4), after=after)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_worker_that_is_killed_at_any_call_leaves_nothing_untold(frail, after, request):
    if "slow" not in request.config.option.markexpr or "not slow" in request.config.option.markexpr:
        pytest.skip("takes minutes; run by `make kill-test`")
    await killed_at(frail, range(1, 100), after=after)


async def killed_at(frail, calls, *, after):
    """For each of the calls: a worker that is killed there while it tells of a job, and then another, until the job is told."""
    receiver = await frail.receiver()
    webhook = await frail.subscribe(receiver)
    heads = []
    for at in calls:
        heads.append(await frail.ran())
        killing = Killing(at, after=after)
        doomed = await doomed_worker(frail, killing)
        alive = asyncio.create_task(frail.until_settled(webhook, 3 * len(heads)))
        dead = asyncio.create_task(killing.reached.wait())
        await asyncio.wait([alive, dead], return_when=asyncio.FIRST_COMPLETED)
        survived = not killing.reached.is_set()
        for task in (alive, dead):
            task.cancel()
        await asyncio.gather(alive, dead, return_exceptions=True)
        await doomed.kill()
        if survived:
            break
        following = await frail.worker()
        await frail.until_settled(webhook, 3 * len(heads))
        await following.stop()
    else:
        raise AssertionError("the worker never ran out of calls")

    deliveries = (await frail.deliveries.page(webhook.id, limit=1000)).deliveries
    assert len(heads) > 5
    assert {one.state for one in deliveries} == {DeliveryState.DELIVERED}
    assert ids(receiver).keys() == {f"{head.id}#{number}" for head in heads for number in (1, 4, 5)}
    for head in heads:
        assert list(dict.fromkeys(events_of(receiver, head.id))) == ["job.queued", "job.started", "job.completed"]


async def doomed_worker(frail, killing):
    """A worker all of whose calls go through what kills it."""
    names = ("dynamodb", "sqs", "secretsmanager", "dynamodbstreams")
    clients = {name: KillingClient(getattr(frail.aws, name), killing) for name in names}
    sender = (await frail.parts()).courier._sender
    return await frail.worker(aws=type(frail.aws)(**clients), sender=KillingSender(sender, killing))

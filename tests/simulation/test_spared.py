"""What is put off for an endpoint goes soon once that is well, whoever put it off and whatever he believed; in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

from shared.errors import UnavailableError
from shared.jobs.change import Moment
from shared.store.deliveries import DeliveryKey
from shared.store.endpoints import Endpoints
from shared.webhooks import deliveries as changes
from shared.webhooks.backlog import FRESH, Backlogs
from shared.webhooks.deliveries import DeliveryState
from shared.webhooks.lanes import Lanes
from shared.webhooks.ports import Answer
from tests.simulation.deliveries import HANGS, DeliveryWorld, hangs, play, refusing, well

HOUR = 3600.0
SOON = 60.0
"""Within so many seconds all must have gone: two looks, and some attempts."""


def asking_to_wait(first):
    """Asks once for an hour of peace, while it is taking another message, which takes some seconds."""

    async def respond(_endpoint, message):
        if message.startswith(first):
            await asyncio.sleep(0.5)
            return Answer(status=429, retry_after="3600")
        await asyncio.sleep(3)
        return Answer(status=204)

    return respond


async def spare(world, endpoint, *, seconds=240, since=120):
    """As after many failures: the endpoint is being spared, since a while."""
    endpoints, now = Endpoints(world.table), world.clock.now()
    before = await endpoints.get(endpoint.webhook.id)
    update = {
        "stamp": world.ids.nonce(),
        "strikes": 9,
        "pauses": 9,
        "paused_until": now + timedelta(seconds=seconds),
        "spared_at": now - timedelta(seconds=since),
    }
    await endpoints.write(before, before.model_copy(update=update), now)


async def mend(world, endpoint):
    """As after a success: it is well, and what was put off may go."""
    endpoints, now = Endpoints(world.table), world.clock.now()
    before = await endpoints.get(endpoint.webhook.id)
    update = {"stamp": world.ids.nonce(), "strikes": 0, "pauses": 0, "paused_until": None, "spared_at": now, "last_success_at": now}
    await endpoints.write(before, before.model_copy(update=update), now)


async def took(world, endpoint, job, *, seconds):
    """Wait until the endpoint has taken the first event of a job; gives how long that was."""
    begun = world.time()
    return await world.until(lambda: f"{job}#1" in endpoint.took, seconds=seconds) - begun


async def probed(world, endpoint, worker):
    """A probe succeeds minutes before the pause would have been over, of which another worker was told a second before.

    Gives a job whose delivery that one puts off then.
    """
    probe, late = [await world.job() for _ in range(2)]
    await worker.tell([probe])
    await world.until(lambda: endpoint.tries == 1, seconds=SOON)
    await asyncio.sleep(0.2)
    endpoint.answer = well
    await spare(world, endpoint)
    waiting = []
    while f"{probe}#1" not in endpoint.took:
        waiting.append(await world.job())
        other = world.worker()
        await other.tell(waiting[-1:])
        await asyncio.sleep(1)
    for job in waiting:
        await took(world, endpoint, job, seconds=2)  # they were let go
    await asyncio.sleep(0.5)  # whoever let them go has found no more
    await other.tell([late])
    await asyncio.sleep(0.5)
    return late


def test_who_was_told_of_a_long_pause_does_not_believe_in_it_for_ever():
    """A container that is frozen meanwhile, or one that simply isn't who finds that the endpoint is well."""

    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(well)
        refused, taken, waits = [await world.job() for _ in range(3)]
        endpoint.answer = asking_to_wait(refused)
        other = world.worker()
        async with world.worker() as worker:
            await worker.tell([refused, taken])
            await asyncio.sleep(1)
            await other.tell([waits])
            await took(world, endpoint, taken, seconds=SOON)
            await asyncio.sleep(300)
            late = await world.job()
            await other.tell([late])
            return await took(world, endpoint, late, seconds=HOUR)

    assert play(scene) < SOON


def test_what_one_puts_off_who_does_not_know_yet_goes_with_the_next_that_is_taken():
    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(refusing(1))
        async with world.worker() as worker:
            late = await probed(world, endpoint, worker)
            assert f"{late}#1" not in endpoint.attempts
            await asyncio.sleep(FRESH.total_seconds())
            await worker.tell([await world.job()])
            return await took(world, endpoint, late, seconds=HOUR)

    assert play(scene) < 5


def test_what_one_puts_off_who_does_not_know_yet_goes_soon_though_nothing_else_is_sent():
    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(refusing(1))
        async with world.worker() as worker:
            late = await probed(world, endpoint, worker)
            assert f"{late}#1" not in endpoint.attempts
            return await took(world, endpoint, late, seconds=HOUR)

    assert play(scene) < SOON


def test_after_that_nothing_more_is_read_of_an_endpoint_than_of_any_other():
    """What was noted of what waits is noted as over, so that a success costs no query."""

    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(refusing(1))
        async with world.worker() as worker:
            late = await probed(world, endpoint, worker)
            await took(world, endpoint, late, seconds=HOUR)
            await asyncio.sleep(60)
            await worker.tell([await world.job()])
            await asyncio.sleep(1)
            return (await Endpoints(world.table).get(endpoint.webhook.id)).spared_at

    assert play(scene) is None


def test_what_was_found_to_wait_a_while_ago_is_looked_for_again():
    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(well)
        await spare(world, endpoint)
        worker = world.worker()
        backlogs = Backlogs(worker.deliveries, world.clock)
        first, second = [await world.job() for _ in range(2)]
        await worker.tell([first, second])
        await asyncio.sleep(1)
        assert (await backlogs.next(endpoint.webhook.id)).job_id == first
        for job in (first, second):
            waits = await worker.deliveries.get(DeliveryKey(endpoint.webhook.id, job, 1))
            moment = Moment(now=world.clock.now(), stamp=world.ids.nonce(), jitter=0.0)
            await worker.deliveries.write(waits, changes.attempted(waits, Answer(status=204), moment))
        third = await world.job()
        await worker.tell([third])
        await asyncio.sleep(30)
        return (await backlogs.next(endpoint.webhook.id)).job_id == third

    assert play(scene)


def test_what_only_found_no_room_until_its_time_was_over_has_a_last_attempt(monkeypatch):
    """It is given back when a worker ends, however late that is: a worker that ends says nothing of the endpoint."""
    monkeypatch.setattr(changes, "LIFETIME", timedelta(seconds=5))

    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(hangs)
        first, second = [await world.job() for _ in range(2)]
        async with world.worker(lanes=Lanes(each=1, total=4)) as worker:
            await worker.tell([first, second])
            await asyncio.sleep(HANGS / 2 + 1)
        waits = await worker.deliveries.get(DeliveryKey(endpoint.webhook.id, second, 1))
        assert (waits.state, waits.attempts) == (DeliveryState.PENDING, 0)
        endpoint.answer = well
        async with world.worker():
            return await took(world, endpoint, second, seconds=HOUR)

    assert play(scene) < SOON


def test_what_is_held_anew_just_when_it_is_let_go_goes_all_the_same():
    """One that looks at a delivery has read that an earlier one is still on its way, which comes to its end before he writes."""

    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(well)
        job = await world.job(events=2)
        worker, other = world.worker(), world.worker()
        first = DeliveryKey(endpoint.webhook.id, job, 1)
        write, looked = worker.deliveries.write, []

        async def meeting(before, after):
            if before.state is DeliveryState.HELD and not looked:
                earlier = (await other.deliveries.story(job)).deliveries[first]
                looked.append(earlier)
                later = earlier.model_copy(update={"state": DeliveryState.PENDING, "next_at": world.clock.now() + timedelta(hours=1)})
                await other.courier.waiting.hold(before, endpoint.webhook, later)
            return await write(before, after)

        worker.deliveries.write = meeting
        async with worker:
            await worker.fanout.tell(job, {1, 2})
            begun = world.time()
            await world.until(lambda: f"{job}#2" in endpoint.took, seconds=2 * HOUR)
            assert len(looked) == 1
            return world.time() - begun

    assert play(scene) < SOON


def test_what_is_held_behind_one_that_was_put_off_goes_soon_though_nobody_lives_to_let_it_go():
    """Who sends the first dies before he lets go of the second, which was to be looked at when the long pause would have been over."""

    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(well)
        await spare(world, endpoint, seconds=3000)
        job = await world.job(events=3)
        worker = world.worker()
        await worker.fanout.tell(job, {1, 2, 3})
        await asyncio.sleep(10)
        assert endpoint.attempts == Counter()
        await mend(world, endpoint)
        dead = []

        async def dying(_webhook, job_id):
            dead.append(job_id)
            raise UnavailableError("the worker dies here")

        worker.courier.waiting.release = dying
        async with worker:
            begun = world.time()
            await world.until(lambda: f"{job}#3" in endpoint.took, seconds=2 * HOUR)
            assert dead[:2] == [job] * 2
            return world.time() - begun

    assert play(scene) < 4 * SOON

"""Backlogs of endpoints that are sick in one way or another, in virtual time and with every constant as it is."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from shared.webhooks.lanes import EACH, TOTAL, Lanes
from tests.simulation.deliveries import HANGS, DeliveryWorld, fails, hangs, play, refusing, well

HOUR = 3600.0


def drained(times, *, count):
    """Seconds until an endpoint has taken a backlog that fails so many times with each message, and how often it was tried."""

    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(refusing(times))
        jobs = [await world.job() for _ in range(count)]
        begun = world.time()
        async with world.worker() as worker:
            await worker.tell(jobs)
            await world.until(lambda: len(endpoint.took) == count, seconds=HOUR)
        return endpoint.last - begun, endpoint.tries

    return play(scene)


def test_an_endpoint_that_takes_each_message_at_its_second_try_has_its_backlog_in_seconds():
    seconds, tries = drained(1, count=100)

    assert seconds < 40  # the first attempts of others starved it for half an hour
    assert tries == 200


def test_one_that_takes_them_at_the_fourth_try_has_them_in_minutes():
    seconds, tries = drained(3, count=60)

    assert seconds < 180
    assert tries == 240


def test_a_dead_endpoint_is_tried_by_the_same_few_deliveries():
    async def scene():
        world = DeliveryWorld()
        dead = await world.endpoint(fails)
        jobs = [await world.job() for _ in range(80)]
        async with world.worker() as worker:
            await worker.tell(jobs)
            written = world.client.requests["PutItem"]
            await asyncio.sleep(HOUR)
            return dead, await worker.deliveries.waiting(), world.client.requests["PutItem"] - written

    dead, waiting, writes = play(scene)

    assert EACH <= len(dead.attempts) <= 3 * EACH
    assert dead.tries < 250  # once in a quarter of a minute
    assert waiting == 80
    assert writes < 2000  # some three for each attempt, and the others are seldom looked at


def test_one_that_was_away_has_its_backlog_soon_after_it_is_back():
    async def scene():
        world = DeliveryWorld()
        endpoint = await world.endpoint(hangs)
        jobs = [await world.job() for _ in range(80)]
        async with world.worker() as worker:
            await worker.tell(jobs)
            await asyncio.sleep(HOUR / 6)
            endpoint.answer, back = well, world.time()
            await world.until(lambda: len(endpoint.took) == 80 - EACH, seconds=HOUR)
            return world.time() - back

    # Of what was tried, the retries are up to six minutes apart by then; nothing else waits that long.
    assert play(scene) < 240


def test_what_the_healthy_are_sent_takes_no_longer_beside_the_sick():
    """Each request to the table holds up all others: who writes for nothing delays everybody."""

    def seconds(*sick):
        async def scene():
            world = DeliveryWorld(request_seconds=0.004)
            others = [await world.endpoint(answer) for answer in sick]
            healthy = [await world.endpoint(answer) for answer in (well, well, refusing(1))]
            jobs = [await world.job() for _ in range(30)]
            async with world.worker() as worker:
                await worker.tell(jobs)
                await world.until(lambda: all(len(one.took) == 30 for one in healthy), seconds=HOUR)
                for one in others:
                    one.answer = well  # so that the worker ends
            return max(one.last for one in healthy)

        return play(scene)

    assert seconds(*[hangs] * 6, *[fails] * 3) < 1.2 * seconds(*[well] * 9)


def test_those_that_are_well_find_room_beside_more_that_hang_than_there_is_room_for():
    async def scene():
        world = DeliveryWorld()
        lanes = Lanes(each=4, total=16)
        known = await world.endpoint(well)
        async with world.worker(lanes=lanes) as worker:
            await worker.tell([await world.job()])
            await world.until(lambda: len(known.took) == 1, seconds=HOUR)
            dead = [await world.endpoint(hangs) for _ in range(20)]
            jobs = [await world.job() for _ in range(10)]
            begun = world.time()
            await worker.tell(jobs)
            await world.until(lambda: len(known.took) == 11, seconds=HOUR)
            taken = world.time() - begun
            for one in dead:
                one.answer = well
        return taken

    assert TOTAL / EACH > 20
    assert play(scene) < HANGS / 2


def test_what_is_due_is_found_behind_all_that_finds_no_room(monkeypatch):
    """More is overdue for an endpoint that takes no more than a sweep reads."""
    monkeypatch.setattr("shared.webhooks.sweeping.PAGE", 5)
    monkeypatch.setattr("shared.webhooks.sweeping.PAGES", 2)
    monkeypatch.setattr("shared.webhooks.fanout.NO_ROOM", timedelta(seconds=0.1))

    async def scene():
        world = DeliveryWorld()
        full = await world.endpoint(hangs, namespace="full")
        healthy = await world.endpoint(refusing(1), namespace="well")
        async with world.worker(lanes=Lanes(each=1, total=4, waiting=1)) as worker:
            await worker.tell([await world.job(namespace="full") for _ in range(60)])
            begun = world.time()
            await worker.tell([await world.job(namespace="well")])
            await world.until(lambda: len(healthy.took) == 1, seconds=HOUR)
            taken = world.time() - begun
            assert full.tries <= 3
            full.answer = well
        return taken

    assert play(scene) < 2 * HANGS

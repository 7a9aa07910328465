"""A fleet that was made for one region gains another: nothing in the table has to be changed for it."""

from __future__ import annotations

import asyncio

import pytest

from shared.errors import NotFoundError
from shared.jobs.states import State
from shared.queues.queue import Queue
from shared.store.bootstrap import bootstrap
from shared.store.counters import Counters
from shared.store.listing import Filters, Listing
from tests.conftest import FleetResources
from tests.integration.region import job, running_region, running_regions
from tests.integration.regions.conftest import EAST, WEST
from workers.assembly import assemble


async def test_a_store_of_one_region_serves_two_without_migration(fleet_settings, aws, aws_endpoint, tmp_path):
    one = fleet_settings.model_copy(update={"regions": (EAST,)})
    made = await bootstrap(aws, one)
    assert not any(WEST in name for name in made.made)
    resources = FleetResources(settings=one, aws=aws, endpoint=aws_endpoint)
    async with running_region(resources, tmp_path) as alone:
        for start in (alone.dispatcher, alone.observer, alone.sweeper):
            await start()
        before = [await alone.submit(manifest=job(f"before-{number}"), region="any") for number in range(3)]
        await asyncio.gather(*(alone.until(head.id, State.SUCCEEDED) for head in before))
        waiting = await alone.submit(manifest=job("waiting", duration=2), region="any")
        await alone.until(waiting.id, State.RUNNING)

    both = one.model_copy(update={"regions": (EAST, WEST)})
    added = await bootstrap(aws, both)
    assert len(added.made) == 2  # its queue of doorbells, and the dead letters of that
    assert all(WEST in name for name in added.made)

    grown = FleetResources(settings=both, aws=aws, endpoint=aws_endpoint)
    async with running_regions(grown, tmp_path, (EAST, WEST)) as (east, west):
        for start in (west.dispatcher, west.observer, west.sweeper):
            await start()
        heads = [await west.submit(manifest=job(f"after-{number}"), region=WEST) for number in range(3)]
        await asyncio.gather(*(west.until(head.id, State.SUCCEEDED) for head in heads))
        assert all(len(west.starts(head.id)) == 1 for head in heads)

        placed = [(await east.submit(manifest=job(f"any-{number}"), region="any")).region for number in range(4)]
        assert WEST in placed
        counts = await Counters(east.core.table, east.core.layout).by_region([EAST, WEST])
        assert counts[EAST][State.SUCCEEDED] == 3
        assert counts[WEST][State.SUCCEEDED] >= 3
        page = await Listing(east.core.table, both.regions).page(Filters(), limit=100, cursor=None)
        assert {head.id for head in [*before, *heads]} <= {head.id for head in page.heads}


async def test_a_program_that_knows_a_region_whose_queue_is_missing_says_so(fleet_settings, aws):
    """So the queue comes first, then the programs that ring at it."""
    await bootstrap(aws, fleet_settings.model_copy(update={"regions": (EAST,)}))

    with pytest.raises(NotFoundError, match=f"dispatch-{WEST}"):
        await assemble(fleet_settings.model_copy(update={"regions": (EAST, WEST)}), aws)
    assert await Queue.open(aws.sqs, fleet_settings.dispatch_queue(EAST))

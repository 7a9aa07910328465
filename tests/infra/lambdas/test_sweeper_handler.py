"""The sweeper on Lambda: an invocation at a time, and within it what falls due meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.errors import UnavailableError
from shared.jobs.model import Timeouts
from shared.jobs.states import State
from tests.integration.region import REGION, running_region
from workers.sweeper.build import sweeper
from workers.sweeper.handler import Parts, answer


@pytest.fixture
async def region(fleet_resources, tmp_path):
    async with running_region(fleet_resources, tmp_path, lease_seconds=1.0) as running:
        yield running


def parts(region, *, regions=(REGION,)):
    return Parts(sweeper=sweeper(region.core, region.aws), regions=regions, clock=region.core.clock)


async def test_what_falls_due_within_an_invocation_is_done_by_it(region):
    here = parts(region)
    head = await region.submit(timeouts=Timeouts(queue_seconds=1))

    told = (await answer(here, seconds=10))[REGION]

    assert (await region.head(head.id)).state is State.FAILED
    assert told == {"sweeps": told["sweeps"], "next": None, "error": None}
    assert told["sweeps"] > 1


async def test_what_falls_due_after_an_invocation_is_left_to_the_next(region):
    here = parts(region)
    head = await region.submit(timeouts=Timeouts(queue_seconds=1))
    await answer(here, seconds=0)

    assert (await region.head(head.id)).state is State.QUEUED

    await answer(here, seconds=10)
    assert (await region.head(head.id)).state is State.FAILED


async def test_an_invocation_that_finds_nothing_ends_after_the_grace_of_its_start(region):
    here = parts(region)

    first, second = await answer(here, seconds=10), await answer(here, seconds=10)

    assert first[REGION]["sweeps"] == 2  # claims are left alone for a lease, and looked at after it
    assert second[REGION] == {"sweeps": 1, "next": None, "error": None}


async def test_a_region_that_can_not_be_swept_holds_up_no_other(region):
    here = parts(region, regions=(REGION, "eu-west-1"))
    due = region.core.store.due

    async def away(where, limit):
        if where == "eu-west-1":
            raise UnavailableError("DynamoDB is away")
        return await due(where, limit)

    region.core.store.due = away
    told = await answer(here, seconds=2)
    assert (told[REGION]["error"], told["eu-west-1"]) == (None, {"sweeps": 0, "next": None, "error": "DynamoDB is away"})

    with pytest.raises(UnavailableError):
        await answer(replace(here, regions=("eu-west-1",)), seconds=2)

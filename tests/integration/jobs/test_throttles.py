"""More writes than one key takes: slower, and nothing lost."""

import asyncio
from dataclasses import replace

import pytest

from shared.jobs.states import State
from shared.store.counters import Counters
from tests.integration.jobs.breaking import ThrottledDynamoDb
from tests.integration.region import REGION, job, running_region

JOBS = 300
BURST = 100
TIMES = 3


@pytest.fixture
async def throttled(fleet_resources, tmp_path):
    """A region whose table takes 100 writes on any one key at once, and throttles each further one three times."""
    aws = replace(fleet_resources.aws, dynamodb=ThrottledDynamoDb(fleet_resources.aws.dynamodb, burst=BURST, times=TIMES))
    async with running_region(fleet_resources, tmp_path, aws=aws) as running:
        yield running


async def test_a_burst_into_one_namespace_is_accepted_though_its_keys_are_throttled(throttled):
    """Case 16: 300 submits at once to one namespace, three times what its keys take, indexes among them. All are accepted, throttles are
    tried again, none is lost."""
    heads = await asyncio.gather(*(throttled.submit(manifest=job(f"job-{n}"), idempotency_key=f"k-{n}") for n in range(JOBS)))

    assert throttled.aws.dynamodb.throttled == (JOBS - BURST) * TIMES
    assert len({head.id for head in heads}) == JOBS
    ready = await throttled.core.store.ready(REGION, JOBS + 1)
    assert {entry.job_id for entry in ready} == {head.id for head in heads}
    counts = (await Counters(throttled.core.table, throttled.core.layout).by_region([REGION]))[REGION]
    assert {state: count for state, count in counts.items() if count} == {State.QUEUED: JOBS}

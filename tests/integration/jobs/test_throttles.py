"""More writes than one key takes: slower, and nothing lost."""

import asyncio
from dataclasses import replace

import pytest

from shared.jobs.states import State
from shared.store.counters import Counters
from tests.integration.jobs.breaking import ThrottledDynamoDb
from tests.integration.region import REGION, job, running_region

JOBS = 300


@pytest.fixture
async def throttled(fleet_resources, tmp_path):
    """A region whose table takes a tenth of what DynamoDB takes: 100 writes a second on any one key."""
    aws = replace(fleet_resources.aws, dynamodb=ThrottledDynamoDb(fleet_resources.aws.dynamodb, limit=100))
    async with running_region(fleet_resources, tmp_path, aws=aws) as running:
        yield running


async def test_a_burst_into_one_namespace_is_accepted_though_its_keys_are_throttled(throttled):
    """Case 16, at a tenth of its rate: 100 submits a second for 3 s to one namespace, the half of each second's at once, with 100 writes a
    second allowed on any one key, indexes among them. All are accepted, throttles are tried again, none is lost."""

    async def submit(number):
        await asyncio.sleep(number // 50 * 0.5)
        return await throttled.submit(manifest=job(f"job-{number}"), idempotency_key=f"k-{number}")

    heads = await asyncio.gather(*(submit(number) for number in range(JOBS)))

    assert throttled.aws.dynamodb.throttled > 0
    assert len({head.id for head in heads}) == JOBS
    ready = await throttled.core.store.ready(REGION, JOBS + 1)
    assert {entry.job_id for entry in ready} == {head.id for head in heads}
    counts = (await Counters(throttled.core.table, throttled.core.layout).by_region([REGION]))[REGION]
    assert {state: count for state, count in counts.items() if count} == {State.QUEUED: JOBS}

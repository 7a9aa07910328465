"""Doorbells that are never sent: the job is stored, found and claimed all the same."""

from dataclasses import replace

import pytest

from shared.jobs.states import State
from shared.jobs.submission import JobRequest
from tests.integration.jobs.breaking import DumbSqs
from tests.integration.region import REGION, job, running_region


@pytest.fixture
async def dumb(fleet_resources, tmp_path):
    """A region whose first bell can't be sent."""
    aws = replace(fleet_resources.aws, sqs=DumbSqs(fleet_resources.aws.sqs, times=1))
    async with running_region(fleet_resources, tmp_path, aws=aws, lease_seconds=2.0) as running:
        yield running


async def idle_dispatcher(region):
    """A dispatcher that has had its first look into the ready list, and waits for a bell."""
    await region.dispatcher()
    first = await region.submit(manifest=job("first"), idempotency_key="first")
    await region.submit(manifest=job("first"), idempotency_key="first")
    await region.until(first.id, State.PENDING, State.RUNNING, State.SUCCEEDED)


async def test_a_submission_whose_bell_failed_is_sent_again_and_claimed(dumb):
    """Case 7: the same id, no second job, and the second request rings the bell that the first could not."""
    await idle_dispatcher(dumb)
    await dumb.observer()
    dumb.aws.sqs.left = 1
    request = JobRequest(manifest=job(), region=REGION, namespace="gco-jobs", idempotency_key="k-1")

    first = await dumb.submission.submit(request)
    again = await dumb.submission.submit(request)
    await dumb.until(first.head.id, State.SUCCEEDED)

    assert dumb.aws.sqs.left == 0
    assert (first.created, again.created) == (True, False)
    assert again.head.id == first.head.id
    assert len(dumb.starts(first.head.id)) == 1


async def test_a_job_whose_bell_nobody_rings_again_is_found_by_the_sweeper(dumb, short_waits):
    """Case 7, when the client doesn't come back: the sweeper rings."""
    await idle_dispatcher(dumb)
    await dumb.observer()
    dumb.aws.sqs.left = 1

    head = await dumb.submit()
    await dumb.sweeper()
    await dumb.until(head.id, State.SUCCEEDED)

    assert dumb.aws.sqs.left == 0
    assert len(dumb.starts(head.id)) == 1

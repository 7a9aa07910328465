"""Many workers, slow clusters, few slots: one claim, one object, one execution."""

import asyncio
from dataclasses import replace

import pytest

from shared.jobs.model import EventType
from shared.jobs.states import State
from tests.integration.jobs.breaking import RecordingSqs, counted
from tests.integration.region import job, running_region


@pytest.fixture
async def patient(fleet_resources, tmp_path):
    """A region whose lease is longer than any call."""
    aws = replace(fleet_resources.aws, sqs=RecordingSqs(fleet_resources.aws.sqs))
    async with running_region(fleet_resources, tmp_path, aws=aws, lease_seconds=30.0, dispatch_slots=1) as running:
        yield running


async def test_a_job_that_takes_longer_to_apply_than_its_bell_stays_hidden_is_applied_once(patient):
    """Case 1, at half its times: visibility 1 s, applying takes 3.5 s, three dispatchers, one job."""
    for number in range(3):
        await patient.dispatcher(f"d{number}", visibility=1)
    await patient.observer()
    patient.fault(method="POST", path="/jobs$", action="delay", delay=2.0)
    patient.fault(method="PATCH", path="/jobs/", action="delay", delay=1.5)

    head = await patient.submit()
    done = await patient.until(head.id, State.SUCCEEDED)

    assert (done.execution, done.fence) == (1, 1)
    assert len(await patient.objects()) == 1
    assert len(patient.starts(head.id)) == 1


async def test_a_worker_that_comes_back_after_its_lease_finds_the_job_done_and_leaves_it_alone(fleet_resources, tmp_path):
    """Case 1, when even the lease is over: the next one makes the object that the first one then meets."""
    async with running_region(fleet_resources, tmp_path, lease_seconds=1.0) as region:
        dispatchers = [await region.dispatcher(f"d{number}", visibility=1) for number in range(3)]
        await region.observer()
        await region.sweeper()
        region.fault(method="POST", path="/jobs$", action="delay", delay=2.5)

        head = await region.submit()
        done = await region.until(head.id, State.SUCCEEDED)
        await asyncio.gather(*(dispatcher.stop() for dispatcher in dispatchers))

        assert (done.execution, done.fence) == (1, 2)
        assert await region.head(head.id) == done
        assert len(await region.objects()) == 1
        assert len(region.starts(head.id)) == 1


async def test_no_bell_is_seen_twice_while_there_is_one_slot_for_all_of_them(patient):
    """Case 2, at a third of its times: 10 bells, one slot in each of two dispatchers, 0.33 s a job, visibility 1 s."""
    heads = [await patient.submit(manifest=job(f"job-{number}")) for number in range(10)]
    sqs = patient.aws.sqs
    assert len(sqs.sent) == 10
    patient.fault(method="POST", path="/jobs$", action="delay", delay=0.33, times=10)

    await patient.dispatcher("d0", visibility=1)
    await patient.dispatcher("d1", visibility=1)
    await patient.observer()
    await asyncio.gather(*(patient.until(head.id, State.SUCCEEDED) for head in heads))

    await patient.until_true(lambda: len(sqs.seen) == 10)
    assert set(sqs.seen.values()) == {1}
    assert all(len(patient.starts(head.id)) == 1 for head in heads)


async def test_fifty_jobs_that_the_cluster_refuses_twice_become_fifty_objects(region, short_waits):
    """Case 3, with half its jobs: 50 queued while the cluster accepts nothing for two passes: 50 objects at the end, never 51."""
    heads = await asyncio.gather(*(region.submit(manifest=job(f"job-{number}", duration=0.01)) for number in range(50)))
    region.fault(method="POST", path="/jobs$", action="answer", status=503, times=100_000)
    for number in range(2):
        await region.dispatcher(f"d{number}")
    await region.observer()
    await region.sweeper()

    async with asyncio.timeout(60):
        while min(head.apply_failures for head in (await region.core.store.heads([head.id for head in heads])).values()) < 2:
            await asyncio.sleep(0.1)
    assert await region.objects() == []
    region.server.faults.clear()
    done = await asyncio.gather(*(region.until(head.id, State.SUCCEEDED, seconds=60) for head in heads))

    assert len(await region.objects()) == 50
    assert len(region.cluster.started) == 50
    assert {head.execution for head in done} == {1}
    assert counted(await region.events(heads[0].id))[EventType.CLAIM_RETURNED] >= 2

"""Machines that go away under a job: a new execution, and no attempt is used up."""

import pytest

from shared.clusters.observed import condition
from shared.jobs.model import EventType, RetryPolicy
from shared.jobs.states import State
from tests.integration.jobs.breaking import counted, gapless
from tests.integration.region import job


@pytest.mark.parametrize("reason", ["DeletionByTaintManager", "EvictionByEvictionAPI", "TerminationByKubelet"])
async def test_a_pod_that_loses_its_machine_costs_no_attempt(region, reason):
    """Case 10: the condition `DisruptionTarget` on a pod: a new execution, interruptions + 1, attempts unchanged."""
    await region.dispatcher()
    await region.observer()

    manifest = job(duration=0.4, interrupt_after=0.1, interrupt_reason=reason)
    head = await region.submit(manifest=manifest, retry=RetryPolicy(max_attempts=1))
    done = await region.until(head.id, State.SUCCEEDED, State.FAILED)

    events = await region.events(head.id)
    assert (done.state, done.execution, done.interruptions, done.attempts) == (State.SUCCEEDED, 2, 1, 0)
    assert counted(events)[EventType.INTERRUPTED] == 1
    assert gapless(events)
    assert any(reason in (event.message or "") for event in events)


async def test_a_node_that_is_taken_away_costs_no_attempt(region):
    """Case 10: a spot machine is reclaimed with all that runs on it."""
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true"))
    await region.until(head.id, State.RUNNING)
    pods = (await region.api.request("GET", "/api/v1/namespaces/gco-jobs/pods"))["items"]

    region.cluster.interrupt_node(pods[0]["spec"]["nodeName"], returns=False)
    await region.until_true(lambda: len({start.job_uid for start in region.starts(head.id)}) == 2)
    again = await region.until(head.id, State.RUNNING)

    assert (again.execution, again.interruptions, again.attempts) == (2, 1, 0)


async def test_an_eviction_is_no_failure_of_a_job_that_says_nothing_of_pod_failures(region):
    """Case 24: no `podFailurePolicy`, `backoffLimit: 0`, evicted: by the default policy the cluster itself doesn't count the eviction."""
    dispatcher = await region.dispatcher()
    head = await region.submit(manifest=job(backoff_limit=0, duration=0.3, interrupt_after=0.1))

    # Nobody observes, so nobody stops the execution: the cluster goes on by its own rules.
    await region.until_true(lambda: len(region.starts(head.id)) == 2)
    found = (await region.objects())[0]
    await dispatcher.stop()
    await region.observer()
    done = await region.until(head.id, State.SUCCEEDED, State.FAILED)

    ignoring = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert condition(found["status"], "Failed") is None
    assert ignoring in found["spec"]["podFailurePolicy"]["rules"]
    assert (done.state, done.attempts) == (State.SUCCEEDED, 0)

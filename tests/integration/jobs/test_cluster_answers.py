"""What an API server may answer to a create, and who may already have the name."""

import pytest

from shared.clusters.bundles import Bundles
from shared.jobs.states import State
from tests.integration.region import job

JOBS = "/apis/batch/v1/namespaces/gco-jobs/jobs"


@pytest.mark.parametrize("lookups_lost", [0, 1], ids=["found at once", "found by a 409"])
async def test_an_object_that_was_created_with_a_504_is_adopted(region, lookups_lost):
    """Case 5: the API server creates the object and answers 504; the next create is a 409."""
    await region.dispatcher()
    await region.observer()
    region.fault(method="POST", path="/jobs$", action="apply_then_answer", status=504)
    for _ in range(lookups_lost):
        region.fault(method="GET", path="/jobs/", action="answer", status=504)

    head = await region.submit()
    done = await region.until(head.id, State.SUCCEEDED)

    assert not region.server.faults.waiting
    assert (done.execution, done.fence) == (1, 1)
    assert len(await region.objects()) == 1
    assert len(region.starts(head.id)) == 1


async def test_an_object_whose_connection_broke_after_its_creation_is_adopted(region):
    """Case 5, with a broken connection in the 504's place, and the same at the release."""
    await region.dispatcher()
    await region.observer()
    region.fault(method="POST", path="/jobs$", action="apply_then_drop")
    region.fault(method="PATCH", path="/jobs/", action="apply_then_drop")

    head = await region.submit()
    done = await region.until(head.id, State.SUCCEEDED)

    assert not region.server.faults.waiting
    assert (done.execution, done.fence) == (1, 1)
    assert len(region.starts(head.id)) == 1


async def test_a_stranger_of_the_same_name_fails_the_job_and_is_neither_deleted_nor_patched(region):
    """Case 6: a foreign Job of the same name stands in the namespace."""
    head = await region.submit(manifest=job("train"))
    name = Bundles().name(head)
    stranger = job(name, hang="true") | {"metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "somebody"}}}
    made = await region.api.request("POST", JOBS, body=stranger)
    await region.until_true(lambda: region.cluster.started)

    await region.dispatcher()
    await region.observer()
    done = await region.until(head.id, State.FAILED)

    found = await region.api.request("GET", f"{JOBS}/{name}")
    assert done.reason == "name taken"
    assert made["metadata"]["uid"] in done.message
    assert "somebody" in done.message
    assert _unchanging(found) == _unchanging(made)
    assert len(region.cluster.started) == 1


async def test_a_stranger_outlives_the_cancelling_of_the_job_whose_name_it_has(region):
    """Case 6: not even a cancel deletes it."""
    head = await region.submit(manifest=job("train"))
    name = Bundles().name(head)
    made = await region.api.request("POST", JOBS, body=job(name, hang="true"))
    region.fault(method="POST", path="/jobs$", action="delay", delay=0.5)

    await region.dispatcher()
    await region.until(head.id, State.CLAIMED)
    await region.cancel(head.id)
    await region.until(head.id, State.CANCELLED)

    assert _unchanging(await region.api.request("GET", f"{JOBS}/{name}")) == _unchanging(made)


def _unchanging(found):
    """All of an object but what its own controller writes."""
    metadata = {key: value for key, value in found["metadata"].items() if key not in ("resourceVersion", "managedFields")}
    return {"metadata": metadata, "spec": found["spec"]}

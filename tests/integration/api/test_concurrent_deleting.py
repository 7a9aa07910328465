"""Jobs of a cluster that change or go while the API deletes them: each is deleted and counted once, and none that isn't meant."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.api.cluster_jobs import GONE, JOBS, NAMESPACE, OBJECTS, bulk, listed_when, make, named


@pytest.fixture
async def core(cluster_core):
    return cluster_core


async def test_a_deletion_whose_answer_is_lost_is_made_sure_of(client, region):
    await make(region, "a")
    region.fault(method="DELETE", path="/jobs/a", action="apply_then_drop")

    answer = await bulk(client, all=True)

    assert (answer["deleted_count"], answer["failed"], answer["remaining"]) == (0, None, 0)
    assert answer["skipped"] == [{"name": "a", "namespace": NAMESPACE, "reason": GONE}]
    assert await region.objects() == []


async def test_what_two_delete_at_once_counts_once(client, region):
    for number in range(30):
        await make(region, f"j{number}")

    answers = await asyncio.gather(*(bulk(client, all=True) for _ in range(3)))

    assert sorted(name for answer in answers for name in named(answer)) == sorted(f"j{number}" for number in range(30))
    for answer in answers:
        assert (answer["failed_count"], answer["remaining"]) == (0, 0)
        assert answer["deleted_count"] + answer["skipped_count"] == answer["total_matched"]
        assert {one["reason"] for one in answer["skipped"] or ()} <= {GONE}


@pytest.mark.parametrize("when", ["before it is looked at", "before it is deleted"])
async def test_what_somebody_else_deletes_is_not_counted(client, region, when):
    """It is listed by both, and one is held up: between the list and its look, or between its look and its deletion."""
    await make(region, "a")
    region.fault(method="GET" if when == "before it is looked at" else "DELETE", path="/jobs/a$", action="delay", delay=1.0)
    late = asyncio.create_task(bulk(client, all=True))
    await region.until_true(lambda: not region.server.faults.waiting)
    first = await bulk(client, all=True)

    second = await late

    assert (first["deleted_count"], named(first), first["skipped"]) == (1, ["a"], None)
    assert (second["total_matched"], second["deleted_count"], second["jobs"], second["failed"]) == (1, 0, [], None)
    assert second["skipped"] == [{"name": "a", "namespace": NAMESPACE, "reason": GONE}]


async def test_a_job_that_is_about_to_go_is_not_counted_again(client, region):
    made = await make(region, "a")
    patch = {"metadata": {"finalizers": ["tests/wait"]}}
    await region.api.request("PATCH", f"{OBJECTS}/a", body=patch, content_type="application/merge-patch+json")

    first, second = await bulk(client, all=True), await bulk(client, all=True)

    assert (first["deleted_count"], first["skipped_count"]) == (1, 0)
    assert (second["deleted_count"], second["skipped"]) == (0, [{"name": "a", "namespace": NAMESPACE, "reason": GONE}])
    assert [one["metadata"]["uid"] for one in await region.objects()] == [made["metadata"]["uid"]]


async def test_of_two_who_delete_what_a_finalizer_holds_one_counts_it(client, region):
    """Both have read it before either deletes it, and the cluster answers both that it is about to go."""
    await make(region, "a")
    patch = {"metadata": {"finalizers": ["tests/wait"]}}
    await region.api.request("PATCH", f"{OBJECTS}/a", body=patch, content_type="application/merge-patch+json")
    region.fault(method="DELETE", path="/jobs/a$", action="delay", delay=0.5)
    late = asyncio.create_task(bulk(client, all=True))
    await region.until_true(lambda: not region.server.faults.waiting)

    first, second = await bulk(client, all=True), await late

    assert (first["deleted_count"], first["skipped_count"]) == (1, 0)
    assert (second["deleted_count"], second["skipped"]) == (0, [{"name": "a", "namespace": NAMESPACE, "reason": GONE}])


async def test_a_job_that_changes_while_it_is_deleted_is_deleted_all_the_same(client, region):
    await make(region, "a")
    region.fault(method="DELETE", path="/jobs/a$", action="delay", delay=0.5)
    late = asyncio.create_task(bulk(client, all=True))
    await region.until_true(lambda: not region.server.faults.waiting)
    patch = {"metadata": {"labels": {"changed": "yes"}}}
    await region.api.request("PATCH", f"{OBJECTS}/a", body=patch, content_type="application/merge-patch+json")

    assert (await late)["deleted_count"] == 1
    assert await region.objects() == []


async def test_another_job_of_the_name_is_left_alone(client, region):
    await make(region, "a")
    region.fault(method="GET", path="/jobs/a$", action="delay", delay=1.0)
    late = asyncio.create_task(bulk(client, all=True))
    await region.until_true(lambda: not region.server.faults.waiting)
    await bulk(client, all=True)
    made = await make(region, "a")

    answer = await late

    assert (answer["deleted_count"], answer["failed"], answer["skipped_count"]) == (0, None, 1)
    assert [one["metadata"]["uid"] for one in await region.objects()] == [made["metadata"]["uid"]]


async def test_a_job_that_changes_before_its_deletion_is_left_alone(client, region):
    await make(region, "a")
    region.fault(method="DELETE", path="/jobs/a$", action="delay", delay=0.5)
    late = asyncio.create_task(client.delete(f"{JOBS}/{NAMESPACE}/a"))
    await region.until_true(lambda: not region.server.faults.waiting)
    await client.delete(f"{JOBS}/{NAMESPACE}/a")
    await make(region, "a")

    answer = await late

    assert (answer.status_code, answer.json()["detail"]) == (409, "Job 'a' changed before its UID-preconditioned delete")
    assert len(await region.objects()) == 1


async def test_a_job_that_no_longer_fulfils_the_filter_is_left_alone(client, region):
    """It was listed as one that waits, and runs by the time at which it would be deleted."""
    made = await make(region, "a")
    region.fault(method="GET", path="/jobs/a$", action="delay", delay=1.0)
    deleting = asyncio.create_task(bulk(client, status="pending"))
    await region.until_true(lambda: not region.server.faults.waiting)
    path = f"{OBJECTS}/a"
    await region.api.request("PATCH", path, body={"spec": {"suspend": False}}, content_type="application/merge-patch+json")
    await listed_when(client, lambda answer: answer["total"] == 1, status="running")

    answer = await deleting

    assert (answer["total_matched"], answer["deleted_count"], answer["jobs"], answer["remaining"]) == (1, 0, [], 0)
    assert (answer["failed_count"], answer["failed"], answer["skipped_count"]) == (0, None, 1)
    assert answer["skipped"] == [{"name": "a", "namespace": NAMESPACE, "reason": "Job 'a' has changed: it is running"}]
    assert [one["metadata"]["uid"] for one in await region.objects()] == [made["metadata"]["uid"]]

"""Jobs of a cluster that are deleted in bulk through the API: which of them, and what is told of each."""

from __future__ import annotations

import pytest

from shared.jobs.states import State
from tests.integration.api.cluster_jobs import JOBS, NAMESPACE, bulk, listed_when, make, named
from tests.integration.region import job
from workers.api.gco import bulk_deleting


@pytest.fixture
async def core(cluster_core):
    return cluster_core


async def test_bulk_delete_needs_a_condition(client, region):
    await make(region, "a")

    for body in ({}, {"dry_run": True}, {"label_selector": ""}, {"label_selector": " "}, {"all": False}):
        answer = await client.request("DELETE", JOBS, json=body)
        assert answer.status_code == 422
        (problem,) = answer.json()["detail"]
        assert "'all': true" in problem["msg"]
    assert len(await region.objects()) == 1


async def test_bulk_delete_refuses_with_the_place(client, region):
    await make(region, "a")

    for body, pointer in (
        ({"all": True, "status": "failed"}, ""),
        ({"status": "done"}, "/status"),
        ({"older_than_days": 0}, "/older_than_days"),
        ({"older_than_days": 366}, "/older_than_days"),
        ({"older_than_days": "3"}, "/older_than_days"),
        ({"label_selector": "a in (b"}, "/label_selector"),
        ({"label_selector": "a=\0"}, "/label_selector"),
        ({"state": "failed"}, "/state"),
        ({"all": "yes"}, "/all"),
    ):
        answer = await client.request("DELETE", JOBS, json=body)

        assert answer.status_code == 422, body
        (problem,) = answer.json()["detail"]
        assert (problem["pointer"], problem["loc"][0]) == (pointer, "body")
    assert len(await region.objects()) == 1


async def test_a_body_that_is_none_deletes_nothing(client, region):
    await make(region, "a")

    for body in (
        b"",
        b"null",
        b"[]",
        b'"all"',
        b'{"all": true, "all": false}',
        b'{"label_selector": "\\u0000"}',
        b'{"label_selector": "\\ud800"}',
        b'{"namespace": "\\ud800"}',
        b'{"older_than_days": 1e400}',
        b'{"older_than_days": NaN}',
        b'{"all": ' + b"[" * 60 + b"]" * 60 + b"}",
        b'{"all": ' + b"[" * 100_000,
    ):
        answer = await client.request("DELETE", JOBS, content=body, headers={"Content-Type": "application/json"})

        assert answer.status_code == 422, body[:40]
    assert len(await region.objects()) == 1


async def test_a_dry_run_tells_what_would_be_deleted(client, region):
    await make(region, "a", labels={"x": "1"})
    await make(region, "b")

    answer = await bulk(client, label_selector="x", dry_run=True)

    assert answer["jobs"] == [{"name": "a", "namespace": NAMESPACE}]
    assert (answer["dry_run"], answer["total_matched"], answer["deleted_count"], answer["failed"]) == (True, 1, 0, None)
    assert len(await region.objects()) == 2


async def test_bulk_delete_by_status_label_and_age(client, region):
    await make(region, "runs", hang="true")
    await make(region, "done", duration=0.01)
    await make(region, "keep", labels={"keep": "yes"})
    await listed_when(client, lambda answer: answer["total"] == 1, status="succeeded")

    assert (await bulk(client, older_than_days=1))["total_matched"] == 0
    done = await bulk(client, status="completed")
    assert (done["jobs"], done["deleted_count"], done["failed_count"], done["remaining"]) == (
        [{"name": "done", "namespace": NAMESPACE}],
        1,
        0,
        0,
    )
    assert named(await bulk(client, label_selector="!keep")) == ["runs"]
    assert named(await bulk(client, namespace=NAMESPACE)) == ["keep"]
    assert await region.objects() == []


async def test_what_one_request_does_not_delete_is_told(client, region, monkeypatch):
    for name in ("a", "b", "c"):
        await make(region, name)

    monkeypatch.setattr(bulk_deleting, "MOST", 2)
    would = await bulk(client, all=True, dry_run=True)
    some = await bulk(client, all=True)
    monkeypatch.setattr(bulk_deleting, "SECONDS", 0.0)
    late = await bulk(client, all=True)

    assert (would["total_matched"], len(would["jobs"]), would["remaining"]) == (3, 2, 1)
    assert (some["total_matched"], some["deleted_count"], some["remaining"]) == (3, 2, 1)
    assert (late["total_matched"], late["deleted_count"], late["failed"], late["remaining"]) == (1, 0, None, 1)
    assert len(await region.objects()) == 1


async def test_jobs_of_the_queue_are_cancelled_by_a_bulk_delete(client, region):
    await region.dispatcher()
    await region.observer()
    heads = [await region.submit(manifest=job(hang="true")) for _ in range(3)]
    for head in heads:
        await region.until(head.id, State.RUNNING)

    answer = await bulk(client, all=True)

    assert answer["deleted_count"] == 3
    for head in heads:
        ended = await region.until(head.id, *(state for state in State if state.terminal))
        assert (ended.state, ended.reason) == (State.CANCELLED, "deleted through the API")


async def test_what_fails_is_told_for_each_job(client, region):
    await make(region, "a")
    await make(region, "b")
    region.fault(method="DELETE", path="/jobs/b", status=403)

    answer = await bulk(client, all=True)

    assert answer["jobs"] == [{"name": "a", "namespace": NAMESPACE}]
    (failure,) = answer["failed"]
    assert (failure["name"], failure["namespace"], answer["failed_count"], answer["total_matched"]) == ("b", NAMESPACE, 1, 2)
    assert "a fault was injected here" in failure["error"]

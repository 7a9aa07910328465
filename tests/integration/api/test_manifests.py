"""Manifests applied through the API to a simulated cluster: all or nothing, in order, with nothing of the queue touched."""

from __future__ import annotations

import asyncio

import pytest

from shared.jobs.states import State
from tests.integration.api.conftest import serving
from tests.integration.api.manifests import CONFIG_MAPS, JOBS, MANIFESTS, NAMESPACE, config, finished, service, statuses, submit
from tests.integration.region import job
from workers.api.core import build


@pytest.fixture
async def core(cluster_core):
    return cluster_core


async def test_what_is_new_is_created_in_order(client, region):
    code, body = await submit(client, config(), service(), job("train", hang="true"))

    assert code == 200, body
    assert body["success"] is True
    assert body["errors"] == []
    assert body["summary"] == {"created": 3, "updated": 0, "unchanged": 0, "failed": 0, "skipped": 0}
    assert statuses(body) == [("ConfigMap", "settings", "created"), ("Service", "peers", "created"), ("Job", "train", "created")]
    assert (body["cluster_id"], body["region"]) == ("gpufleet-us-east-1", "us-east-1")
    made = await region.api.request("GET", f"{JOBS}/train")
    assert made["metadata"]["uid"] == body["resources"][2]["uid"]
    assert made["metadata"]["annotations"]["gpufleet.io/submitted-by"] == "local"
    assert made["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
    [entry] = (await region.api.request("GET", f"{CONFIG_MAPS}/settings"))["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("gpufleet-api", "Apply")


async def test_the_same_again_is_unchanged_and_less_takes_away_what_was_ours(client, region):
    await submit(client, config(a="1", b="2"), service())
    before = region.cluster.resource_version

    _, again = await submit(client, config(a="1", b="2"), service())
    unchanged = region.cluster.resource_version
    _, less = await submit(client, config(a="1"), service())

    assert [status for _, _, status in statuses(again)] == ["unchanged", "unchanged"]
    assert unchanged == before
    assert [status for _, _, status in statuses(less)] == ["updated", "unchanged"]
    assert (await region.api.request("GET", f"{CONFIG_MAPS}/settings"))["data"] == {"a": "1"}


async def test_fields_of_other_managers_stay_and_those_that_are_said_become_ours(client, region):
    await region.api.request("POST", CONFIG_MAPS, query={"fieldManager": "kubectl"}, body=config(a="old", theirs="x"))

    _, body = await submit(client, config(a="new"))

    assert statuses(body) == [("ConfigMap", "settings", "updated")]
    assert (await region.api.request("GET", f"{CONFIG_MAPS}/settings"))["data"] == {"a": "new", "theirs": "x"}


async def test_a_dry_run_tells_what_would_be_done_and_does_nothing(client, region):
    await submit(client, config("same"), config("changed"), job("over"))
    await finished(region, "over")
    before = region.cluster.resource_version

    code, body = await submit(client, config("same"), config("changed", b="2"), config("new"), job("over"), dry_run=True)

    assert code == 200
    assert [status for _, _, status in statuses(body)] == ["unchanged", "updated", "created", "created"]
    assert "in place of the finished Job" in body["resources"][3]["message"]
    assert region.cluster.resource_version == before


async def test_a_dry_run_without_a_cluster_validates_and_says_so(region):
    async with serving(await build(region.settings, region.aws)) as client:
        code, body = await submit(client, config(), dry_run=True)
        refused, _ = await submit(client, {**config(), "kind": "Secret"}, dry_run=True)
        unreachable, _ = await submit(client, config())

    assert (code, statuses(body)) == (200, [("ConfigMap", "settings", "unchanged")])
    assert "validated only" in body["resources"][0]["message"]
    assert (refused, unreachable) == (422, 503)


async def test_an_active_job_of_the_same_name_is_a_conflict_that_names_it(client, region):
    _, first = await submit(client, job("train", hang="true"))

    code, body = await submit(client, config(), job("train"))

    assert code == 409
    assert first["resources"][0]["uid"] in body["detail"]
    assert "gco-jobs/train" in body["detail"]
    assert len(await region.objects()) == 1
    assert (await client.get(f"{MANIFESTS}/{NAMESPACE}/settings", params={"api_version": "v1", "kind": "ConfigMap"})).status_code == 404


async def test_a_finished_job_is_replaced_by_its_uid(client, region):
    _, first = await submit(client, job("train"))
    await finished(region, "train")

    code, second = await submit(client, job("train", hang="true"))

    old, new = first["resources"][0]["uid"], second["resources"][0]["uid"]
    assert (code, statuses(second)) == (200, [("Job", "train", "created")])
    assert old in second["resources"][0]["message"]
    [standing] = await region.objects()
    assert standing["metadata"]["uid"] == new != old
    pods = (await region.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} <= {new}


async def test_of_two_that_replace_the_same_job_one_is_told_of_the_other(client, region):
    await submit(client, job("train"))
    await finished(region, "train")

    answers = await asyncio.gather(*(submit(client, job("train", hang="true")) for _ in range(4)))

    codes = sorted(code for code, _ in answers)
    assert codes.count(200) == 1
    assert set(codes) <= {200, 400, 409}
    [standing] = await region.objects()
    [winner] = [body for code, body in answers if code == 200]
    assert winner["resources"][0]["uid"] == standing["metadata"]["uid"]


async def test_objects_of_the_queue_are_never_overwritten(client, region):
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true"), supporting=[config("shared")])
    head = await region.until(head.id, State.RUNNING)

    code, body = await submit(client, config("new"), config("shared", mine="yes"), job(head.object.name))

    assert code == 409
    assert body["detail"].count(head.id) == 2
    assert (await region.api.request("GET", f"{CONFIG_MAPS}/shared"))["data"] == {"a": "1"}
    assert (await region.head(head.id)).state is State.RUNNING


async def test_a_job_that_another_creates_in_between_is_not_taken_for_ours(client, region):
    await asyncio.gather(submit(client, job("train", hang="true")), submit(client, job("train", hang="true")))
    answers = await asyncio.gather(*(submit(client, job("other", hang="true")) for _ in range(5)))

    assert sorted(code for code, _ in answers) == [200, 409, 409, 409, 409]
    assert len(await region.objects()) == 2


async def test_a_list_stands_for_its_items(client, region):
    """Case 19."""
    listed = {"apiVersion": "v1", "kind": "List", "items": [job("one", hang="true"), job("two", hang="true")]}

    code, body = await submit(client, config(), listed)
    refused, told = await submit(client, {"kind": "List", "apiVersion": "v1", "items": [job("three"), {**job("four"), "spec": {}}]})

    assert (code, [name for _, name, _ in statuses(body)]) == (200, ["settings", "one", "two"])
    assert refused == 422
    assert all(problem["pointer"].startswith("/manifests/0/items/1/spec") for problem in told["detail"])

"""Retrying Jobs through the API: those of the queue go through the queue again, others are made anew from what the cluster has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from shared.jobs.model import RetryPolicy, Timeouts
from shared.jobs.states import State
from tests.integration.api.conftest import serving
from tests.integration.region import job
from workers.api.cluster_access import ClusterAccess
from workers.api.core import build

NAMESPACE = "gco-jobs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
NOW = datetime(2026, 9, 8, 7, 6, 5, tzinfo=UTC)


@dataclass
class Stopped:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW


@pytest.fixture
async def core(region, tmp_path):
    access = ClusterAccess(region.settings.model_copy(update={"kubeconfig": tmp_path / "kubeconfig"}))
    yield replace(await build(region.settings, region.aws, access=access), clock=Stopped())
    await access.close()


@pytest.fixture
async def client(core):
    async with serving(core) as found:
        yield found


async def retry(client, name, namespace=NAMESPACE):
    answer = await client.post(f"/api/v1/jobs/{namespace}/{name}/retry")
    return answer.status_code, answer.json()


async def ended(region, manifest):
    """A Job that somebody made with kubectl, when it has ended."""
    made = await region.api.request("POST", JOBS, body=manifest)
    name = made["metadata"]["name"]

    async def look():
        while not (await region.api.request("GET", f"{JOBS}/{name}"))["status"].get("conditions"):
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), 20)
    return await region.api.request("GET", f"{JOBS}/{name}")


def a_job(name="train", **steering):
    manifest = job(name, **steering)
    manifest["metadata"] |= {
        "labels": {"team": "ml", "job-name": "other", "controller-uid": "x"},
        "annotations": {
            "note": "keep",
            "gpufleet.io/template": "t@1",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "batch.kubernetes.io/x": "y",
        },
    }
    manifest["spec"]["template"]["metadata"]["labels"] = {"tier": "gpu"}
    return manifest


@pytest.mark.parametrize("exit_code", [0, 3])
async def test_a_job_is_made_anew_from_what_the_cluster_has(client, region, exit_code):
    old = await ended(region, a_job(exit_code=exit_code))

    code, body = await retry(client, "train")

    assert code == 201, body
    assert {key: body[key] for key in ("original_job", "new_job", "namespace", "success", "errors", "job_id")} == {
        "original_job": "train",
        "new_job": "train-retry-20260908070605",
        "namespace": NAMESPACE,
        "success": True,
        "errors": [],
        "job_id": None,
    }
    new = await region.api.request("GET", f"{JOBS}/train-retry-20260908070605")
    uid = new["metadata"]["uid"]
    assert new["metadata"]["labels"] == {"team": "ml"}
    annotations = new["metadata"]["annotations"]
    assert set(annotations) == {"note", *(f"gpufleet.io/{key}" for key in ("submitted-by", "submission", "retry-of", "template"))}
    assert annotations["gpufleet.io/retry-of"] == f"train {old['metadata']['uid']}"
    assert new["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert new["spec"]["template"]["metadata"]["labels"]["tier"] == "gpu"
    assert new["spec"]["template"]["metadata"]["labels"]["job-name"] == "train-retry-20260908070605"
    assert new["spec"]["template"]["spec"]["containers"] == old["spec"]["template"]["spec"]["containers"]
    assert (await ended_again(region, new))["status"]["conditions"]


async def ended_again(region, made):
    async def look():
        while not (found := await region.api.request("GET", f"{JOBS}/{made['metadata']['name']}"))["status"].get("conditions"):
            await asyncio.sleep(0.02)
        return found

    return await asyncio.wait_for(look(), 20)


async def test_a_job_that_has_not_ended_is_a_conflict_that_names_its_state(client, region):
    await region.api.request("POST", JOBS, body=a_job(hang="true"))
    suspended = a_job("asleep")
    suspended["spec"]["suspend"] = True
    await region.api.request("POST", JOBS, body=suspended)

    code, body = await retry(client, "asleep")

    assert (code, "pending" in body["detail"]) == (409, True)
    assert (await retry(client, "train"))[0] == 409
    assert len(await region.objects()) == 2


async def test_two_retries_in_one_second_are_one(client, region):
    await ended(region, a_job())

    answers = await asyncio.gather(*(retry(client, "train") for _ in range(4)))
    await ended_again(region, {"metadata": {"name": "train-retry-20260908070605"}})
    later, body = await retry(client, "train")

    assert sorted(code for code, _ in answers) == [201, 409, 409, 409]
    assert later == 409
    assert "train-retry-20260908070605" in body["detail"]
    assert len(await region.objects()) == 2


@pytest.mark.parametrize("name", ["a" * 63, "a" * 41 + "-" + "b" * 21, "x"])
async def test_the_new_name_is_a_name(client, region, name):
    await ended(region, a_job(name))

    code, body = await retry(client, name)

    assert code == 201, body
    assert len(body["new_job"]) <= 63
    assert "--" not in body["new_job"]
    assert body["new_job"].endswith("-retry-20260908070605")


async def test_what_the_policy_would_not_admit_is_not_run_again(client, region):
    manifest = a_job()
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = "evil.example/x"
    await ended(region, manifest)

    code, body = await retry(client, "train")

    assert (code, body["success"]) == (400, False)
    [error] = body["errors"]
    assert "evil.example/x" in error
    assert (body["detail"], len(body["request_id"])) == (error, 32)
    assert len(await region.objects()) == 1


async def test_what_the_cluster_refuses_is_told(client, region):
    await ended(region, a_job())
    region.fault(method="POST", path="/jobs", status=422)

    code, body = await retry(client, "train")

    assert (code, body["success"], body["errors"]) == (
        400,
        False,
        ["Job gco-jobs/train-retry-20260908070605: a fault was injected here"],
    )


async def test_what_is_not_there_or_not_allowed(client):
    assert (await retry(client, "none"))[0] == 404
    assert (await retry(client, "none", "kube-system"))[0] == 403


async def queued(region, **fields):
    """A job of the queue that has ended, with its object on the cluster."""
    await region.dispatcher()
    await region.observer()
    head = await region.submit(**fields)
    return await region.until(head.id, State.SUCCEEDED, State.FAILED)


async def test_a_job_of_the_queue_is_submitted_again_as_it_was(client, core, region):
    supporting = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}]
    old = await queued(
        region,
        manifest=job("train", exit_code=1),
        supporting=supporting,
        priority=70,
        labels={"team": "ml"},
        retry=RetryPolicy(max_attempts=2, backoff_seconds=0),
        timeouts=Timeouts(total_seconds=600),
    )
    assert old.state is State.FAILED

    code, body = await retry(client, old.object.name)

    assert code == 201, body
    assert (body["original_job"], body["new_job"], body["success"]) == (old.object.name, "train-retry-20260908070605", True)
    new = await region.head(body["job_id"])
    assert new.id != old.id
    assert new.name == "train-retry-20260908070605"
    assert (new.region, new.priority, new.labels, new.retry, new.timeouts) == (old.region, 70, {"team": "ml"}, old.retry, old.timeouts)
    assert new.submitted_by == "local"
    specification = (await core.jobs.specifications([new]))[new.id]
    assert specification.supporting == supporting
    assert specification.manifest["spec"] == job("train", exit_code=1)["spec"]
    again = await region.until(new.id, State.FAILED)
    assert again.object.uid != old.object.uid


async def test_a_job_of_the_queue_is_retried_once_in_a_second(client, region):
    old = await queued(region)

    answers = await asyncio.gather(*(retry(client, old.object.name) for _ in range(3)))

    assert sorted(code for code, _ in answers) == [201, 409, 409]
    [made] = [body["job_id"] for code, body in answers if code == 201]
    assert all(made in body["detail"] for code, body in answers if code == 409)


async def test_a_job_of_the_queue_that_has_not_ended_is_a_conflict(client, region):
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true"))
    head = await region.until(head.id, State.RUNNING)

    code, body = await retry(client, head.object.name)

    assert code == 409
    assert head.id in body["detail"]
    assert "running" in body["detail"]


async def test_a_job_of_a_queue_that_is_unknown_is_not_run_again(client, region):
    manifest = a_job()
    manifest["metadata"]["labels"] |= {"gpufleet.io/managed": "true", "gpufleet.io/job-id": "0"}
    await ended(region, manifest)

    assert (await retry(client, "train"))[0] == 404

"""The simulated cluster as the real Kubernetes client sees it, over HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from kubernetes.aio import client, config, watch
from kubernetes.aio.dynamic import DynamicClient

from tests.unit.cluster_sim.harness import conditions, job
from workers.local.cluster import ClusterServer, Pace, SimulatedCluster, parse_shapes, serve, write_kubeconfig

FAST = Pace(default_duration=0.1)


@pytest.fixture
async def server() -> AsyncIterator[ClusterServer]:
    nodes = parse_shapes("1xg5.12xlarge:spot,1xm5.4xlarge")
    cluster = SimulatedCluster(name="test", region="eu-west-1", nodes=nodes, clock=time.time, seed=3, pace=FAST)
    async with serve([cluster]) as (found,):
        yield found


@pytest.fixture
async def api(server: ClusterServer) -> AsyncIterator[client.ApiClient]:
    async with client.ApiClient(client.Configuration(host=server.url)) as found:
        yield found


@pytest.fixture
async def http(server: ClusterServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


def job_api(api: client.ApiClient) -> client.BatchV1Api:
    return client.BatchV1Api(api)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds, ten seconds at most."""
    for _ in range(500):
        if await holds():
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{holds.__name__} never came to hold")


async def watched(list_function: Callable[..., Any], **options: Any) -> list[Any]:
    """What a watch of the default namespace shows in a second."""
    async with watch.Watch() as stream:
        return [event async for event in stream.stream(list_function, "default", timeout_seconds=1, **options)]


async def until_ended(api: client.ApiClient, name: str) -> client.V1Job:
    """Watch a Job to its end, as a client does."""
    async with watch.Watch() as stream:
        async for event in stream.stream(
            job_api(api).list_namespaced_job, "default", field_selector=f"metadata.name={name}", timeout_seconds=10
        ):
            found = {condition.type for condition in event["object"].status.conditions or () if condition.status == "True"}
            if found & {"Complete", "Failed"}:
                return event["object"]
    raise AssertionError(f"{name} didn't end")


async def test_a_job_is_created_suspended_released_by_uid_and_watched_to_its_end(server, api):
    created = await job_api(api).create_namespaced_job("default", job("train", suspend=True))
    wrong = {"metadata": {"uid": "other"}, "spec": {"suspend": False}}
    right = {"metadata": {"uid": created.metadata.uid}, "spec": {"suspend": False}}

    with pytest.raises(client.ApiException) as refused:
        await job_api(api).patch_namespaced_job("train", "default", wrong, _content_type="application/merge-patch+json")
    assert refused.value.status == 409
    await job_api(api).patch_namespaced_job("train", "default", right, _content_type="application/merge-patch+json")

    done = await until_ended(api, "train")
    assert done.status.succeeded == 1
    assert done.metadata.uid == created.metadata.uid
    assert [start.job_name for start in server.cluster.started] == ["train"]


async def test_errors_are_the_clients_own(api):
    await job_api(api).create_namespaced_job("default", job("train", suspend=True))

    with pytest.raises(client.ApiException) as conflict:
        await job_api(api).create_namespaced_job("default", job("train"))
    assert (conflict.value.status, json.loads(conflict.value.body)["reason"]) == (409, "AlreadyExists")
    with pytest.raises(client.exceptions.NotFoundException):
        await job_api(api).read_namespaced_job("none", "default")


async def test_models_of_every_kind_can_be_read(api):
    core = client.CoreV1Api(api)
    await job_api(api).create_namespaced_job("default", job("train"))
    await until_ended(api, "train")

    pods = await core.list_namespaced_pod("default", label_selector="job-name=train")
    nodes = await core.list_node()
    events = await core.list_namespaced_event("default")
    namespaces = await core.list_namespace()

    assert pods.items[0].status.phase == "Succeeded"
    assert nodes.items[0].status.allocatable["nvidia.com/gpu"] == "4"
    assert "Scheduled" in {event.reason for event in events.items}
    assert "default" in {namespace.metadata.name for namespace in namespaces.items}
    assert (await client.VersionApi(api).get_code()).major == "1"


async def test_logs_are_read_and_followed(api):
    core = client.CoreV1Api(api)
    await job_api(api).create_namespaced_job("default", job("train", steer={"logs": "one\ntwo\nthree", "duration": "0.6"}))
    async with watch.Watch() as stream:
        async for event in stream.stream(core.list_namespaced_pod, "default", timeout_seconds=10):
            if event["object"].status.phase == "Running":
                name = event["object"].metadata.name
                break

    response = await core.read_namespaced_pod_log_without_preload_content(name, "default", follow=True)

    assert await response.content.read() == b"one\ntwo\nthree\n"
    assert await core.read_namespaced_pod_log(name, "default", tail_lines=1) == "three\n"


async def test_a_watch_that_began_too_early_raises_410_and_a_list_helps(server, api):
    core = client.CoreV1Api(api)
    await core.create_namespaced_config_map("default", {"metadata": {"name": "x"}})
    server.cluster.compact()

    with pytest.raises(client.ApiException) as gone:
        await watched(core.list_namespaced_config_map, resource_version="1")
    assert gone.value.status == 410

    version = (await core.list_namespaced_config_map("default")).metadata.resource_version
    seen = await watched(core.list_namespaced_config_map, resource_version=version)
    assert seen == []


async def test_objects_are_applied_and_deleted_with_their_owner(api):
    core = client.CoreV1Api(api)
    owner = await job_api(api).create_namespaced_job("default", job("train", suspend=True))
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": owner.metadata.uid}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "ownerReferences": [reference]},
        "data": {"a": "1"},
    }

    for _ in range(2):
        applied = await core.patch_namespaced_config_map(
            "x", "default", body, field_manager="fleet", _content_type="application/apply-patch+yaml"
        )
        assert applied.data == {"a": "1"}
    await job_api(api).delete_namespaced_job("train", "default", propagation_policy="Foreground")

    async def is_gone() -> bool:
        return not (await core.list_namespaced_config_map("default")).items

    await eventually(is_gone)
    assert (await job_api(api).list_namespaced_job("default")).items == []


async def test_the_dynamic_client_finds_its_way(api):
    dynamic = await DynamicClient(api)
    jobs = await dynamic.resources.get(api_version="batch/v1", kind="Job")

    created = await jobs.create(body=job("train", suspend=True), namespace="default")

    assert created.metadata.name == "train"
    assert [item.metadata.name for item in (await jobs.get(namespace="default")).items] == ["train"]


async def test_faults_are_put_in_over_http(server, api, http):
    faults = [
        {"method": "POST", "path": "/jobs$", "action": "apply_then_answer", "status": 504},
        {"method": "GET", "path": "/jobs/train$", "status": 503, "retry_after": 1},
    ]
    async with http.post("/_faults", json=faults) as answer:
        assert await answer.json() == {"waiting": 2}

    with pytest.raises(client.ApiException) as timeout:
        await job_api(api).create_namespaced_job("default", job("train", suspend=True))
    assert timeout.value.status == 504
    with pytest.raises(client.ApiException) as unavailable:
        await job_api(api).read_namespaced_job("train", "default")
    assert (unavailable.value.status, unavailable.value.headers["Retry-After"]) == (503, "1")
    assert (await job_api(api).read_namespaced_job("train", "default")).metadata.name == "train"


async def test_a_dropped_connection_loses_only_the_answer(api, http):
    await http.post("/_faults", json={"method": "POST", "path": "/jobs$", "action": "apply_then_drop"})

    with pytest.raises(aiohttp.ClientError):
        await job_api(api).create_namespaced_job("default", job("train", suspend=True))

    assert (await job_api(api).read_namespaced_job("train", "default")).metadata.name == "train"


@pytest.mark.parametrize(("action", "status"), [("watch_gone", 410), ("watch_empty", None)])
async def test_watches_break_on_demand(api, http, action, status):
    await http.post("/_faults", json={"action": action})
    if status is None:
        assert await watched(job_api(api).list_namespaced_job) == []
    else:
        with pytest.raises(client.ApiException) as gone:
            await watched(job_api(api).list_namespaced_job)
        assert gone.value.status == status


async def test_wrong_faults_are_refused(http):
    async with http.post("/_faults", json={"action": "explode"}) as answer:
        assert answer.status == 400
    async with http.get("/_unknown") as answer:
        assert answer.status == 404


async def test_a_node_is_interrupted_over_http(server, api, http):
    await job_api(api).create_namespaced_job("default", job("train", steer={"duration": "1"}))

    async def has_started() -> bool:
        return bool(server.cluster.started)

    await eventually(has_started)

    async with http.post("/_nodes/node-1/interrupt", json={"back_after": 0.2}) as answer:
        assert answer.status == 200
    async with http.post("/_nodes/none/interrupt") as answer:
        assert answer.status == 404

    done = await until_ended(api, "train")
    assert "Complete" in conditions(api.sanitize_for_serialization(done))
    async with http.get("/_started") as answer:
        assert [start["job_name"] for start in await answer.json()] == ["train", "train"]


async def test_a_client_that_leaves_a_watch_leaves_nothing_behind(server, http):
    answer = await http.get("/apis/batch/v1/jobs", params={"watch": "true", "resourceVersion": "1"})
    shelf = server.cluster._store._shelf(server.cluster._world.jobs)
    assert len(shelf.watchers) == 1

    answer.close()

    async def is_gone() -> bool:
        return not shelf.watchers

    await eventually(is_gone)


async def test_pages_of_other_sites_are_refused(http):
    async with http.get("/version", headers={"Origin": "https://example.com"}) as answer:
        assert answer.status == 403
    async with http.get("/version", headers={"Host": "example.com"}) as answer:
        assert answer.status == 403


async def test_a_large_body_is_answered_by_the_api(http):
    body = io.BytesIO(json.dumps({"metadata": {"name": "x"}, "data": {"a": "x" * 3_300_000}}).encode())
    async with http.post("/api/v1/namespaces/default/configmaps", data=body) as answer:
        assert answer.status == 413
        assert (await answer.json())["reason"] == "RequestEntityTooLarge"


async def test_a_kubeconfig_has_a_context_for_each_region(tmp_path: Path):
    clusters = [
        SimulatedCluster(name=region, region=region, nodes=[], clock=time.time, seed=1, namespaces=[f"only-{region}"])
        for region in ("eu-west-1", "us-east-1")
    ]
    path = tmp_path / "config" / "kubeconfig"
    async with serve(clusters) as servers:
        write_kubeconfig(path, {server.cluster.region: server.url for server in servers})
        for region in ("eu-west-1", "us-east-1"):
            async with await config.new_client_from_config(str(path), context=region) as api:
                names = [item.metadata.name for item in (await client.CoreV1Api(api).list_namespace()).items]
                assert f"only-{region}" in names
    assert path.stat().st_mode & 0o077 == 0


async def test_it_runs_as_a_program(tmp_path: Path):
    path = tmp_path / "kubeconfig"
    arguments = ["--region", "eu-west-1", "--nodes", "m5.large", "--kubeconfig", str(path), "--namespace", "lab"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.local.cluster", *arguments, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert program.stdout is not None
    region, url = (await asyncio.wait_for(program.stdout.readline(), 30)).decode().split()
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/namespaces/lab") as answer:
        assert answer.status == 200
    assert (region, path.exists()) == ("eu-west-1", True)

    program.send_signal(signal.SIGTERM)

    assert await asyncio.wait_for(program.wait(), 10) == 0


async def test_hundreds_of_jobs_are_served(server, api):
    await asyncio.gather(*(job_api(api).create_namespaced_job("default", job(f"j{number}")) for number in range(300)))

    async def all_have_succeeded() -> bool:
        return all(item.status.succeeded for item in (await job_api(api).list_namespaced_job("default")).items)

    await eventually(all_have_succeeded)
    assert len(server.cluster.started) == 300

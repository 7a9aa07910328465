"""Logs through the GCO door, as they stand: of one pod or of all, and why there are none."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.region import SIMULATION

NAMESPACE = "gco-jobs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ORIGINAL = {
    "cluster_id",
    "region",
    "timestamp",
    "job_name",
    "namespace",
    "pod_name",
    "container",
    "available_containers",
    "init_containers",
    "previous",
    "tail_lines",
    "logs",
}


@pytest.fixture
async def client(cluster_client):
    return cluster_client


def a_job(name="train", *, containers=("main",), init=(), annotations=None, pod=None, **spec):
    steering = {SIMULATION + key.replace("__", ".").replace("_", "-"): str(spec.pop(key)) for key in list(spec) if key in STEERED}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "backoffLimit": 0,
            **spec,
            "template": {
                "metadata": {"annotations": steering | (annotations or {})},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": one, "image": "x:1"} for one in containers],
                    "initContainers": [{"name": one, "image": "x:1"} for one in init],
                    **(pod or {}),
                },
            },
        },
    }


STEERED = {"logs", "logs__side", "duration", "hang", "exit_code", "rotate_lines"}


async def made(region, **options):
    """A Job of which every pod has started; and where they don't hang, has ended, so that all of its log is there."""
    early = {"Pending", "Running"} if options.get("hang") == "false" else {"Pending"}
    manifest = a_job(**({"hang": "true"} | options))
    await region.api.request("POST", JOBS, body=manifest)
    name, count = manifest["metadata"]["name"], manifest["spec"].get("parallelism", 1)
    async with asyncio.timeout(10):
        while True:
            pods = [pod for pod in await pods_of(region, name) if pod["status"]["phase"] not in early]
            if len(pods) >= count:
                return pods
            await asyncio.sleep(0.02)


async def pods_of(region, name):
    return (await region.api.request("GET", PODS, query={"labelSelector": f"job-name={name}"}))["items"]


async def logs(client, name="train", *, pod=None, **params):
    part = f"/pods/{pod}" if pod else ""
    return await client.get(f"/api/v1/jobs/{NAMESPACE}/{name}{part}/logs", params=params)


async def test_with_one_pod_the_answer_is_that_of_the_original(client, region):
    (pod,) = await made(region, logs="one\ntwo\nthree", duration=0.05, hang="false")

    answer = (await logs(client)).json()

    assert answer.keys() == ORIGINAL
    told = {key: answer[key] for key in ORIGINAL - {"cluster_id", "region", "timestamp"}}
    assert told == {
        "job_name": "train",
        "namespace": NAMESPACE,
        "pod_name": pod["metadata"]["name"],
        "container": "main",
        "available_containers": ["main"],
        "init_containers": [],
        "previous": False,
        "tail_lines": 100,
        "logs": "one\ntwo\nthree\n",
    }


async def test_every_pod_is_read_each_behind_its_name(client, region):
    pods = await made(region, logs="hello", parallelism=3)
    by_age = sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
    names = [pod["metadata"]["name"] for pod in by_age]

    answer = (await logs(client)).json()

    assert answer["pod_name"] == names[-1]
    assert answer["logs"] == "".join(f"==> {name}/main <==\nhello\n" for name in names)
    assert answer["pods"] == [{"pod_name": name, "container": "main", "logs": "hello\n", "error": None} for name in names]
    assert "truncated" not in answer


async def test_one_pod_can_be_asked_for_on_both_routes(client, region):
    pods = await made(region, logs="hello", parallelism=2)
    name = pods[0]["metadata"]["name"]

    by_path = (await logs(client, pod=name)).json()
    by_parameter = (await client.get(f"/api/v1/jobs/{NAMESPACE}/train/logs", params={"pod": name})).json()

    assert (by_parameter["pod_name"], by_parameter["logs"]) == (name, "hello\n")
    assert by_path.keys() == {"cluster_id", "region", "timestamp", "job_name", "namespace", "pod_name", "container", "logs"}
    assert (by_path["pod_name"], by_path["logs"]) == (name, "hello\n")


async def test_the_parameters_cut_the_log(client, region):
    (pod,) = await made(region, logs="one\ntwo\nthree", duration=0.05, hang="false")
    name = pod["metadata"]["name"]

    assert (await logs(client, tail=2)).json()["logs"] == "two\nthree\n"
    assert (await logs(client, since_seconds=60)).json()["logs"] == "one\ntwo\nthree\n"
    first = (await logs(client, timestamps=True)).json()["logs"].splitlines()[0]
    assert first.endswith("Z one")
    assert (await logs(client, pod=name, tail=1)).json()["logs"] == "three\n"


async def test_the_run_before_is_read_where_there_was_one(client, region):
    pod = {"restartPolicy": "OnFailure"}
    (found,) = await made(region, logs="a", duration=0.1, exit_code="1,0", hang="false", backoffLimit=3, pod=pod)
    name = found["metadata"]["name"]

    assert (await logs(client, previous=True)).json()["logs"] == "a\n"
    assert (await logs(client, pod=name, previous=True)).json()["logs"] == "a\n"


async def test_without_a_run_before_it_is_said(client, region):
    await made(region, logs="a")

    refused = await logs(client, previous=True)

    assert refused.status_code == 400
    assert 'previous terminated container "main"' in refused.json()["detail"]


async def test_the_container_that_is_meant(client, region):
    await made(region, name="first", containers=("main", "side"), init=("prepare",), logs="m", logs__side="s")
    annotations = {"kubectl.kubernetes.io/default-container": "side"}
    await made(region, name="annotated", containers=("main", "side"), annotations=annotations, logs="m", logs__side="s")

    first, annotated = (await logs(client, "first")).json(), (await logs(client, "annotated")).json()
    init = (await logs(client, "first", container="prepare")).json()

    assert (first["container"], first["logs"]) == ("main", "m\n")
    assert (first["available_containers"], first["init_containers"]) == (["main", "side"], ["prepare"])
    assert (annotated["container"], annotated["logs"]) == ("side", "s\n")
    assert (init["container"], init["logs"]) == ("prepare", "")


async def test_an_unknown_container_is_told_with_what_there_is(client, region):
    (pod,) = await made(region, containers=("main", "side"), init=("prepare",))

    for answer in (await logs(client, container="x"), await logs(client, pod=pod["metadata"]["name"], container="x")):
        assert answer.status_code == 400
        assert "Available containers: main, side; init containers: prepare" in answer.json()["detail"]


async def test_what_is_not_there_is_not_found(client, region):
    (pod,) = await made(region)
    await region.api.request("POST", JOBS, body=a_job("suspended", suspend=True))

    assert (await logs(client, "none")).json()["detail"] == "Job 'none' not found"
    assert (await logs(client, "suspended")).status_code == 404
    assert (await logs(client, pod="none")).status_code == 404
    assert (await logs(client, "none", pod=pod["metadata"]["name"])).status_code == 404
    assert (await client.get("/api/v1/jobs/kube-system/train/logs")).status_code == 403
    assert (await client.get(f"/api/v1/jobs/{NAMESPACE}/train%2F..%2Fx/logs")).status_code == 404


async def test_a_pod_of_another_job_is_refused(client, region):
    await made(region)
    (other,) = await made(region, name="other")

    refused = await logs(client, pod=other["metadata"]["name"])

    assert refused.status_code == 400
    assert "does not belong to job 'train'" in refused.json()["detail"]


async def test_a_pod_that_is_pending_is_a_conflict_with_the_schedulers_reason(client, region):
    resources = {"resources": {"limits": {"nvidia.com/gpu": "64"}}}
    await region.api.request("POST", JOBS, body=a_job(pod={"containers": [{"name": "main", "image": "x:1", **resources}]}))
    async with asyncio.timeout(10):
        while not (pods := await pods_of(region, "train")) or not pods[0]["status"].get("conditions"):
            await asyncio.sleep(0.02)

    for answer in (await logs(client), await logs(client, pod=pods[0]["metadata"]["name"])):
        assert answer.status_code == 409
        assert "is Pending" in answer.json()["detail"]
        assert "Unschedulable" in answer.json()["detail"]


async def test_a_container_that_waits_is_a_400_on_both_routes(client, region):
    (pod,) = await made(region)
    name = pod["metadata"]["name"]
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}, "restartCount": 0}
    body = {"status": {"containerStatuses": [waiting]}}
    await region.api.request("PATCH", f"{PODS}/{name}/status", body=body, content_type="application/merge-patch+json")

    for answer in (await logs(client), await logs(client, pod=name)):
        assert answer.status_code == 400
        assert "ImagePullBackOff: no such image" in answer.json()["detail"]


@pytest.mark.parametrize(("status", "told"), [(403, 502), (500, 503), (400, 400), (404, 404)])
async def test_what_the_cluster_answers_is_told(client, region, status, told):
    (pod,) = await made(region)
    for answer in (logs(client), logs(client, pod=pod["metadata"]["name"])):
        region.fault(path="/log$", status=status)
        assert (await answer).status_code == told


async def test_other_pods_without_a_log_say_why(client, region):
    await made(region, logs="a", parallelism=2)
    pods = sorted(await pods_of(region, "train"), key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
    oldest = pods[0]["metadata"]["name"]
    waiting = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}, "restartCount": 0}
    body = {"status": {"containerStatuses": [waiting]}}
    await region.api.request("PATCH", f"{PODS}/{oldest}/status", body=body, content_type="application/merge-patch+json")

    answer = (await logs(client)).json()

    assert answer["pods"][0]["error"] == f"Container 'main' of pod '{oldest}' has not started: ImagePullBackOff"
    assert answer["pods"][1]["logs"] == "a\n"
    assert f"==> {oldest}/main <==\n(Container 'main'" in answer["logs"]


async def test_an_answer_is_bounded_in_pods_and_in_bytes(client, region, monkeypatch):
    monkeypatch.setattr("shared.clusters.log_reading.BYTES", 40)
    monkeypatch.setattr("shared.clusters.log_reading.newest_pods.__kwdefaults__", {"count": 2})
    await made(region, logs="\n".join(f"line {number:02}" for number in range(10)), duration=0.05, hang="false", parallelism=3)

    answer = (await logs(client)).json()

    assert answer["truncated"] is True
    assert [part["logs"] for part in answer["pods"]] == ["line 08\nline 09\n"] * 2


@pytest.mark.parametrize("params", [{"tail": 0}, {"tail": 10_001}, {"since_seconds": 0}, {"fellow": True}, {"previous": "x"}])
async def test_parameters_that_break_a_rule_are_refused(client, params):
    assert (await logs(client, **params)).status_code == 422


async def test_a_process_without_a_cluster_says_so(shared_client):
    answer = await logs(shared_client)

    assert answer.status_code == 503
    assert "reaches no cluster" in answer.json()["detail"]

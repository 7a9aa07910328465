"""Manifests applied through the API to a simulated cluster: all or nothing, in order, with nothing of the queue touched."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from dataclasses import replace

import pytest

from shared.jobs.states import State
from tests.integration.api.conftest import serving
from tests.integration.region import job
from workers.api.core import build

MANIFESTS = "/api/v1/manifests"
NAMESPACE = "gco-jobs"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


@pytest.fixture
async def core(cluster_core):
    return cluster_core


@pytest.fixture
async def client(core):
    async with serving(core) as found:
        yield found


def config(name="settings", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"a": "1"}}


def service(name="peers", port=80):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": port}]}}


async def submit(client, *manifests, **fields):
    answer = await client.post(MANIFESTS, json={"manifests": list(manifests)} | fields)
    return answer.status_code, answer.json()


def statuses(body):
    return [(one["kind"], one["name"], one["status"]) for one in body["resources"]]


async def finished(region, name):
    """Until a Job has ended."""

    async def look():
        while not (await region.api.request("GET", f"{JOBS}/{name}"))["status"].get("conditions"):
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), 20)


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


async def test_when_the_cluster_refuses_one_nothing_is_applied(client, region):
    region.fault(method="PATCH", path="/services/", status=422)

    code, body = await submit(client, config(), service(), job())

    assert code == 400
    assert body["success"] is False
    assert [status for _, _, status in statuses(body)] == ["skipped", "failed", "skipped"]
    assert body["summary"]["failed"] == 1
    assert body["errors"] == ["Service gco-jobs/peers: a fault was injected here"]
    assert (body["detail"], len(body["request_id"])) == (body["errors"][0], 32)
    assert await region.objects() == []


async def test_a_failure_has_what_every_error_has(client, region):
    """The first of the failures is the detail; the request's id is that of its header, and a success has neither."""
    for path in ("/services/", "/configmaps/"):
        region.fault(method="PATCH", path=path, status=422)
    failed = await client.post(MANIFESTS, json={"manifests": [service(), config()]})
    fine = await client.post(MANIFESTS, json={"manifests": [job()]})

    assert (failed.status_code, fine.status_code) == (400, 200)
    assert failed.json()["detail"] == "Service gco-jobs/peers: a fault was injected here (and 1 more)"
    assert failed.json()["request_id"] == failed.headers["x-request-id"]
    assert failed.json().keys() - fine.json().keys() == {"detail", "request_id"}


async def test_what_was_applied_before_a_failure_is_told(client, region):
    region.fault(method="PATCH", path="/services/", status=422, after=1)

    code, body = await submit(client, config(), service(), job())

    assert code == 400
    assert [status for _, _, status in statuses(body)] == ["created", "failed", "skipped"]
    assert await region.objects() == []
    assert (await region.api.request("GET", f"{CONFIG_MAPS}/settings"))["metadata"]["uid"] == body["resources"][0]["uid"]


@pytest.mark.parametrize("fault", [{"action": "apply_then_answer", "status": 504}, {"action": "apply_then_drop"}, {"action": "drop"}])
async def test_a_job_whose_answer_is_lost_is_created_once(client, region, fault):
    region.fault(method="POST", path="/jobs", after=1, **fault)

    code, body = await submit(client, job("train", hang="true"))

    assert (code, statuses(body)) == (200, [("Job", "train", "created")])
    [standing] = await region.objects()
    assert standing["metadata"]["uid"] == body["resources"][0]["uid"]


@pytest.mark.parametrize("fault", [{"action": "apply_then_answer", "status": 504}, {"action": "apply_then_drop"}, {"action": "drop"}])
async def test_an_apply_whose_answer_is_lost_tells_what_it_did(client, region, fault):
    await submit(client, config("changed"), config("same"))
    for name in ("new", "changed", "same"):
        region.fault(method="PATCH", path=f"/configmaps/{name}$", after=1, **fault)

    code, body = await submit(client, config("new"), config("changed", b="2"), config("same"))

    assert code == 200
    assert [status for _, _, status in statuses(body)] == ["created", "updated", "unchanged"]


async def test_a_throttled_request_is_made_again(client, region):
    for path in ("/configmaps", "/jobs"):
        region.fault(path=path, status=429, retry_after=0, times=3)

    code, body = await submit(client, config(), job("train"))

    assert (code, body["summary"]["created"]) == (200, 2)


async def test_a_job_that_another_creates_in_between_is_not_taken_for_ours(client, region):
    await asyncio.gather(submit(client, job("train", hang="true")), submit(client, job("train", hang="true")))
    answers = await asyncio.gather(*(submit(client, job("other", hang="true")) for _ in range(5)))

    assert sorted(code for code, _ in answers) == [200, 409, 409, 409, 409]
    assert len(await region.objects()) == 2


async def test_an_object_that_changes_in_between_is_looked_at_again(client, region, core):
    """The conflict of a status that a controller writes between the look and the apply."""
    await submit(client, config())
    region.fault(method="PATCH", path="/configmaps/", status=409, times=2)

    code, body = await submit(client, config(b="2"))

    assert (code, statuses(body)) == (200, [("ConfigMap", "settings", "updated")])


async def test_a_kind_that_the_cluster_lacks_is_a_refusal_that_says_so(region, core):
    train = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "t"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 1}},
    }
    async with serving(core) as client:
        code, body = await submit(client, train)

    assert (code, statuses(body)) == (400, [("TrainJob", "t", "failed")])
    assert "doesn't know TrainJob" in body["errors"][0]


async def test_a_list_stands_for_its_items(client, region):
    """Case 19."""
    listed = {"apiVersion": "v1", "kind": "List", "items": [job("one", hang="true"), job("two", hang="true")]}

    code, body = await submit(client, config(), listed)
    refused, told = await submit(client, {"kind": "List", "apiVersion": "v1", "items": [job("three"), {**job("four"), "spec": {}}]})

    assert (code, [name for _, name, _ in statuses(body)]) == (200, ["settings", "one", "two"])
    assert refused == 422
    assert all(problem["pointer"].startswith("/manifests/0/items/1/spec") for problem in told["detail"])


@pytest.mark.parametrize("value", ["x" * 255 * 1024, "x" * 390_000, "x" * 401_000, "é" * 250_000], ids=len)
async def test_large_manifests_are_applied_whole(client, region, value):
    """Case 14."""
    manifest = job("large", hang="true")
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "DATA", "value": value}]

    code, body = await submit(client, manifest)

    assert (code, statuses(body)) == (200, [("Job", "large", "created")])
    [standing] = await region.objects()
    assert standing["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "DATA", "value": value}]


@pytest.mark.parametrize("value", ["x" * 401_000, "é" * 250_000], ids=len)
async def test_large_manifests_reach_the_cluster_through_the_queue_too(client, region, value):
    """Case 14."""
    manifest = job("large", hang="true")
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "DATA", "value": value}]

    queued = await client.post("/api/v1/queue/jobs", json={"manifest": manifest, "target_region": "us-east-1"})
    polled = await client.post("/api/v1/queue/poll")

    assert (queued.status_code, polled.json()["results"][0]["status"]) == (201, "applied")
    [standing] = await region.objects()
    assert {"name": "DATA", "value": value} in standing["spec"]["template"]["spec"]["containers"][0]["env"]


async def test_a_job_that_loses_its_machine_has_not_failed(client, region):
    """Case 24, of a Job that is applied directly: the default policy lets the loss cost no attempt."""
    await submit(client, job("train", duration=1.0, backoff_limit=0))
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"

    async def running():
        while not (found := [pod for pod in (await region.api.request("GET", pods))["items"] if pod["status"]["phase"] == "Running"]):
            await asyncio.sleep(0.02)
        return found[0]

    first = await asyncio.wait_for(running(), 20)
    region.cluster.interrupt_node(first["spec"]["nodeName"])
    await finished(region, "train")

    conditions = (await region.api.request("GET", f"{JOBS}/train"))["status"]["conditions"]
    assert {one["type"] for one in conditions} >= {"Complete"}
    assert len({start.pod_name for start in region.cluster.started}) == 2


async def test_one_beyond_the_limit_is_refused_with_size_and_limit(client):
    manifest = job("large")
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "DATA", "value": "x" * 1_600_000}]

    code, body = await submit(client, manifest)

    [problem] = body["detail"]
    assert (code, problem["pointer"]) == (422, "/manifests/0")
    assert problem["ctx"]["size"] > 1_600_000 > problem["ctx"]["limit"]


async def test_all_problems_of_all_manifests_are_told_at_once(client, region):
    bad = job("Bad_Name")
    bad["spec"]["template"]["spec"]["hostNetwork"] = True

    code, body = await submit(client, config(), bad, service(port=0) | {"kind": "Ingress"}, validate=False)

    pointers = {problem["pointer"] for problem in body["detail"]}
    assert code == 422
    assert {"/validate", "/manifests/1/metadata/name", "/manifests/1/spec/template/spec/hostNetwork", "/manifests/2/kind"} <= pointers


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"manifests": []}, "/manifests"),
        ({}, "/manifests"),
        ({"manifests": [config(f"c{number}") for number in range(101)]}, "/manifests"),
        ({"manifests": [{"kind": "List", "items": [config(f"c{number}") for number in range(101)]}]}, "/manifests"),
        ({"manifests": [1]}, "/manifests/0"),
        ({"manifests": config()}, "/manifests"),
        ({"manifests": [config()], "dry_run": "yes"}, "/dry_run"),
        ({"manifests": [config()], "validate": False}, "/validate"),
        ({"manifests": [config()], "dryrun": True}, "/dryrun"),
        ({"manifests": [config(), config()]}, "/manifests/1/metadata/name"),
        ({"manifests": [{**config(), "metadata": {"name": "c", "annotations": {"gpufleet.io/submitted-by": "x"}}}]}, None),
    ],
)
async def test_bad_bodies_are_refused_with_the_place(client, body, pointer):
    answer = await client.post(MANIFESTS, json=body)

    assert answer.status_code == 422
    assert pointer is None or pointer in [problem["pointer"] for problem in answer.json()["detail"]]


async def test_namespaces(client, core, region):
    elsewhere = {**config(), "metadata": {"name": "c", "namespace": "kube-system"}}
    assert (await submit(client, config(), namespace="kube-system"))[0] == 403
    assert (await submit(client, elsewhere))[0] == 403
    assert (await client.get(f"{MANIFESTS}/kube-system/c")).status_code == 403
    assert (await client.delete(f"{MANIFESTS}/kube-system/c")).status_code == 403
    assert (await submit(client, config(), namespace=NAMESPACE))[0] == 200


async def test_validate_judges_each_manifest(client):
    bad = job("bad")
    bad["spec"]["template"]["spec"]["containers"][0]["image"] = "evil.example/x"

    answer = await client.post(f"{MANIFESTS}/validate", json={"manifests": [config(), bad, {"kind": 5}, config()]})

    body = answer.json()
    assert answer.status_code == 200
    assert (body["valid"], body["total_manifests"], body["valid_manifests"], body["invalid_manifests"]) == (False, 4, 1, 3)
    assert [result["valid"] for result in body["results"]] == [True, False, False, False]
    assert body["results"][0] == {
        "manifest_index": 0,
        "valid": True,
        "api_version": "v1",
        "kind": "ConfigMap",
        "name": "settings",
        "namespace": NAMESPACE,
        "error": None,
        "problems": [],
    }
    [problem] = body["results"][1]["problems"]
    assert problem["pointer"] == "/manifests/1/spec/template/spec/containers/0/image"
    assert problem["value"] == "evil.example/x"
    assert "evil.example/x" in body["results"][1]["error"]
    assert "only once" in body["results"][3]["error"]


async def test_an_object_is_shown_without_bookkeeping(client, region):
    await submit(client, config(), job("train"))
    await finished(region, "train")

    found = (await client.get(f"{MANIFESTS}/{NAMESPACE}/train", params={"api_version": "batch/v1", "kind": "Job"})).json()
    data = (await client.get(f"{MANIFESTS}/{NAMESPACE}/settings", params={"api_version": "v1", "kind": "ConfigMap"})).json()

    resource = found["resource"]
    assert (resource["exists"], resource["kind"], resource["api_version"]) == (True, "Job", "batch/v1")
    assert resource["status"]["succeeded"] == 1
    assert resource["spec"]["backoffLimit"] == 0
    assert "managedFields" not in resource["metadata"]
    assert (data["resource"]["data"], data["resource"]["spec"]) == ({"a": "1"}, {})


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"api_version": "v1", "kind": "ConfigMap"}, 404, "ConfigMap 'none' not found"),
        ({"api_version": "v1", "kind": "Secret"}, 403, "Resource kind 'Secret' is not allowed. Allowed kinds: ["),
        ({"api_version": "v2", "kind": "ConfigMap"}, 403, "API version 'v2' is not allowed for kind 'ConfigMap'. Allowed versions: ['v1']"),
        ({"api_version": "batch/v1", "kind": "Job"}, 404, "Job 'none' not found"),
    ],
)
async def test_what_is_not_there_or_not_allowed(client, query, code, words):
    for method in ("GET", "DELETE"):
        answer = await client.request(method, f"{MANIFESTS}/{NAMESPACE}/none", params=query)
        assert answer.status_code == code
        assert words in answer.json()["detail"]


async def test_a_job_is_deleted_with_its_pods(client, region):
    await submit(client, job("train", hang="true"))

    async def running():
        while not (await region.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]:
            await asyncio.sleep(0.02)

    await asyncio.wait_for(running(), 20)
    answer = await client.delete(f"{MANIFESTS}/{NAMESPACE}/train", params={"api_version": "batch/v1", "kind": "Job"})

    assert answer.status_code == 200
    assert (answer.json()["success"], answer.json()["resource"]["status"]) == (True, "deleted")
    assert await region.objects() == []

    async def gone():
        pods = (await region.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]
        while any("deletionTimestamp" not in pod["metadata"] for pod in pods):
            await asyncio.sleep(0.02)
            pods = (await region.api.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"))["items"]

    await asyncio.wait_for(gone(), 20)


async def test_what_a_job_of_the_queue_needs_is_not_deleted_before_its_end(client, region):
    await region.dispatcher()
    await region.observer()
    head = await region.submit(manifest=job(hang="true"), supporting=[config("shared")])
    head = await region.until(head.id, State.RUNNING)
    query = {"api_version": "v1", "kind": "ConfigMap"}

    refused = await client.delete(f"{MANIFESTS}/{NAMESPACE}/shared", params=query)
    stopped = await client.delete(f"{MANIFESTS}/{NAMESPACE}/{head.object.name}", params={"api_version": "batch/v1", "kind": "Job"})
    head = await region.until(head.id, State.CANCELLED)

    assert (refused.status_code, stopped.status_code) == (409, 200)
    assert head.id in refused.json()["detail"]


async def test_a_job_that_its_owner_deletes_with_kubectl_has_failed(client, region):
    """Case 12, seen through the API."""
    await region.dispatcher()
    await region.observer()
    answer = await client.post("/api/v1/queue/jobs", json={"manifest": job(hang="true"), "target_region": "us-east-1"})
    job_id = answer.json()["job"]["job_id"]
    head = await region.until(job_id, State.RUNNING)
    await region.api.request("DELETE", f"{JOBS}/{head.object.name}", query={"propagationPolicy": "Background"})
    await region.until(job_id, State.FAILED)

    told = (await client.get(f"/api/v1/queue/jobs/{job_id}")).json()["job"]

    assert told["status"] == "failed"
    assert "deleted on the cluster" in told["error_message"]


async def test_a_caller_needs_the_right_and_the_namespace(core, region):
    from shared.identity.callers import Caller, Right
    from workers.api.gco.applying import apply

    caller = Caller(name="key:other", rights=frozenset(Right), namespaces=frozenset({"other"}))
    with pytest.raises(Exception, match="not allowed for key:other"):
        await apply(core, caller, [config()])
    mine = replace(caller, namespaces=frozenset({NAMESPACE}))
    outcome = await apply(core, mine, [config()])
    made = await region.api.request("GET", f"{CONFIG_MAPS}/settings")

    assert outcome.success
    assert made["metadata"]["annotations"]["gpufleet.io/submitted-by"] == "key:other"


@pytest.mark.parametrize("path", [MANIFESTS, f"{MANIFESTS}/validate"])
@pytest.mark.parametrize("as_list", [False, True])
async def test_ten_thousand_manifests_are_refused_before_they_are_looked_at(client, path, as_list):
    many = [config(f"c{number}", a="x" * 400) for number in range(10_000)]
    body = {"manifests": [{"apiVersion": "v1", "kind": "List", "items": many}] if as_list else many}
    tracemalloc.start()

    answer = await client.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert answer.status_code == 422
    assert len(answer.content) < 1000
    assert "100" in answer.json()["detail"][0]["msg"]
    assert peak < 100 * 1024 * 1024

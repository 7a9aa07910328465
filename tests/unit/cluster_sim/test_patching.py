import pytest

from tests.unit.cluster_sim.harness import CONFIG_MAPS, JOBS, JSON_PATCH, STRATEGIC, Bench, config_map, job


@pytest.fixture
def suspended(bench: Bench) -> dict:
    return bench.post(JOBS, job("train", suspend=True, annotations={"a": "1"})).json


def test_a_merge_patch_changes_and_removes(bench, suspended):
    patched = bench.patch(f"{JOBS}/train", {"metadata": {"annotations": {"a": None, "b": "2"}}, "spec": {"suspend": False}}).json

    assert patched["metadata"]["annotations"] == {"b": "2"}
    assert patched["spec"]["suspend"] is False
    assert patched["metadata"]["generation"] == 2
    assert int(patched["metadata"]["resourceVersion"]) > int(suspended["metadata"]["resourceVersion"])


def test_a_patch_that_changes_nothing_costs_no_version(bench, suspended):
    patched = bench.patch(f"{JOBS}/train", {"spec": {"suspend": True}}).json

    assert patched == suspended


def test_a_patch_with_the_uid_of_another_object_is_a_conflict(bench, suspended):
    answer = bench.patch(f"{JOBS}/train", {"metadata": {"uid": "other"}, "spec": {"suspend": False}})

    assert answer.refusal == (409, "Conflict")
    assert "Precondition failed: UID" in answer.json["message"]
    assert bench.job("train")["spec"]["suspend"] is True
    assert bench.patch(f"{JOBS}/train", {"metadata": {"uid": suspended["metadata"]["uid"]}, "spec": {"suspend": False}}).status == 200


def test_a_patch_with_an_old_version_is_a_conflict(bench, suspended):
    bench.patch(f"{JOBS}/train", {"metadata": {"labels": {"x": "y"}}})

    answer = bench.patch(f"{JOBS}/train", {"metadata": {"resourceVersion": suspended["metadata"]["resourceVersion"], "labels": {}}})

    assert answer.refusal == (409, "Conflict")


def test_a_json_patch_is_applied_in_order(bench, suspended):
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": suspended["metadata"]["uid"]},
        {"op": "test", "path": "/spec/suspend", "value": True},
        {"op": "replace", "path": "/spec/suspend", "value": False},
        {"op": "add", "path": "/metadata/annotations/released", "value": "1"},
    ]

    patched = bench.patch(f"{JOBS}/train", operations, JSON_PATCH).json

    assert patched["spec"]["suspend"] is False
    assert patched["metadata"]["annotations"] == {"a": "1", "released": "1"}
    assert bench.patch(f"{JOBS}/train", operations, JSON_PATCH).refusal == (422, "Invalid")


@pytest.mark.parametrize(
    "operations", [[{"op": "remove", "path": "/metadata/none"}], [{"op": "replace", "path": "/spec/none/x", "value": 1}]]
)
def test_a_json_patch_that_does_not_fit_is_invalid(bench, suspended, operations):
    assert bench.patch(f"{JOBS}/train", operations, JSON_PATCH).refusal == (422, "Invalid")


def test_a_json_patch_that_is_none_is_a_bad_request(bench, suspended):
    assert bench.patch(f"{JOBS}/train", [{"op": "sing", "path": "/spec"}], JSON_PATCH).refusal == (400, "BadRequest")


def test_a_strategic_merge_patch_merges_lists_by_name(bench, suspended):
    path = f"{JOBS}/train"
    tolerations = [{"key": "gpu", "operator": "Exists"}]
    body = {
        "spec": {
            "template": {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}], "tolerations": tolerations}}
        }
    }

    pod = bench.patch(path, body, STRATEGIC).json["spec"]["template"]["spec"]

    assert [(item["name"], item["image"], item["resources"]) for item in pod["containers"]] == [
        ("main", "busybox:1", {"limits": {"cpu": "2"}})
    ]
    assert pod["tolerations"] == tolerations


def test_a_strategic_merge_patch_deletes_items_by_directive(bench):
    owners = [{"apiVersion": "v1", "kind": "Node", "name": f"node-{n}", "uid": uid} for n, uid in enumerate(node_uids(bench))]
    bench.post(CONFIG_MAPS, config_map("x", metadata={"ownerReferences": owners}))

    patch = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": owners[0]["uid"]}]}}
    left = bench.patch(f"{CONFIG_MAPS}/x", patch, STRATEGIC).json["metadata"]["ownerReferences"]

    assert left == owners[1:]


def node_uids(bench: Bench) -> list[str]:
    return [node["metadata"]["uid"] for node in bench.get("/api/v1/nodes").items]


def test_an_unknown_patch_type_is_refused(bench, suspended):
    assert bench.patch(f"{JOBS}/train", {}, "text/plain").refusal == (415, "UnsupportedMediaType")


def test_an_update_replaces_what_is_not_the_servers(bench, suspended):
    body = {**suspended, "metadata": {**suspended["metadata"], "annotations": {"new": "1"}}, "status": {"active": 99}}

    updated = bench.call("PUT", f"{JOBS}/train", body).json

    assert updated["metadata"]["annotations"] == {"new": "1"}
    assert updated["status"] == {}
    assert bench.call("PUT", f"{JOBS}/train", body).refusal == (409, "Conflict")


def test_the_status_subresource_changes_the_status_only(bench, suspended):
    body = {"status": {"active": 3}, "spec": {"suspend": False}}

    patched = bench.patch(f"{JOBS}/train/status", body).json

    assert patched["status"]["active"] == 3
    assert patched["spec"]["suspend"] is True


def test_a_running_job_keeps_its_template_and_a_suspended_one_all_but_scheduling(bench, suspended):
    path = f"{JOBS}/train"
    place = {"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}}
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other:1"}]}}}}

    assert bench.patch(path, place).status == 200
    assert bench.patch(path, image).refusal == (422, "Invalid")
    bench.patch(path, {"spec": {"suspend": False}})
    bench.run(1)
    answer = bench.patch(path, {"spec": {"template": {"spec": {"nodeSelector": {"zone": "b"}}}}})
    assert answer.json["details"]["causes"][0]["field"] == "spec.template"


def test_completions_are_fixed_but_for_elastic_jobs(bench):
    bench.post(JOBS, job("plain", completions=2))
    bench.post(JOBS, job("elastic", completions=2, parallelism=2, completionMode="Indexed"))

    assert bench.patch(f"{JOBS}/plain", {"spec": {"completions": 3}}).refusal == (422, "Invalid")
    assert bench.patch(f"{JOBS}/elastic", {"spec": {"completions": 3, "parallelism": 3}}).status == 200


def test_a_dry_patch_stores_nothing(bench, suspended):
    assert bench.patch(f"{JOBS}/train", {"spec": {"suspend": False}}, dryRun="All").json["spec"]["suspend"] is False
    assert bench.job("train") == suspended

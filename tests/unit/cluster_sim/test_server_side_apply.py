from tests.unit.cluster_sim.harness import APPLY, CONFIG_MAPS, JOBS, Bench, config_map, job

PATH = f"{CONFIG_MAPS}/values"


def apply(bench: Bench, body, manager: str = "fleet", path: str = PATH, **query):
    return bench.patch(path, body, APPLY, **({"fieldManager": manager} if manager else {}), **query)


def test_it_creates_what_is_not_there(bench):
    answer = apply(bench, config_map("values", data={"a": "1"}))

    assert answer.status == 201
    (entry,) = answer.json["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("fleet", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}


def test_applying_the_same_again_changes_nothing(bench):
    first = apply(bench, config_map("values", data={"a": "1"})).json
    bench.run(5)

    assert apply(bench, config_map("values", data={"a": "1"})).json == first


def test_a_field_that_is_no_longer_applied_goes(bench):
    apply(bench, config_map("values", data={"a": "1", "b": "2"}))

    assert apply(bench, config_map("values", data={"b": "3"})).json["data"] == {"b": "3"}


def test_a_field_that_another_still_applies_stays(bench):
    apply(bench, config_map("values", data={"a": "1", "b": "2"}))
    apply(bench, config_map("values", data={"a": "1"}), "other")

    assert apply(bench, config_map("values", data={"b": "2"})).json["data"] == {"a": "1", "b": "2"}


def test_another_value_for_a_field_of_another_is_a_conflict_unless_forced(bench):
    apply(bench, config_map("values", data={"a": "1"}))

    answer = apply(bench, config_map("values", data={"a": "2"}), "other")

    assert answer.refusal == (409, "Conflict")
    assert answer.json["details"]["causes"] == [{"reason": "FieldManagerConflict", "message": 'conflict with "fleet"', "field": ".data.a"}]
    forced = apply(bench, config_map("values", data={"a": "2"}), "other", force="true").json
    assert forced["data"] == {"a": "2"}
    assert [entry["manager"] for entry in forced["metadata"]["managedFields"]] == ["other"]


def test_what_was_created_otherwise_belongs_to_its_creator(bench):
    bench.post(CONFIG_MAPS, config_map("values", data={"a": "1"}))

    assert apply(bench, config_map("values", data={"a": "1", "b": "2"})).status == 200
    assert apply(bench, config_map("values", data={"a": "2"}), "other").refusal == (409, "Conflict")


def test_a_patch_takes_a_field_from_who_applied_it(bench):
    apply(bench, config_map("values", data={"a": "1", "b": "1"}))
    bench.patch(PATH, {"data": {"a": "2"}})

    assert apply(bench, config_map("values", data={"a": "1", "b": "2"})).json["details"]["causes"][0]["field"] == ".data.a"


def test_owner_references_are_merged_by_uid(bench):
    uids = [node["metadata"]["uid"] for node in bench.get("/api/v1/nodes").items]
    references = [{"apiVersion": "v1", "kind": "Node", "name": f"node-{n}", "uid": uid} for n, uid in enumerate(uids)]

    apply(bench, config_map("values", metadata={"ownerReferences": references[:1]}), "one")
    both = apply(bench, config_map("values", metadata={"ownerReferences": references[1:]}), "two").json

    assert both["metadata"]["ownerReferences"] == references


def test_containers_are_merged_by_name(bench):
    path = f"{JOBS}/train"
    bench.post(JOBS, job("train", suspend=True))
    body = {"spec": {"template": {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1"}}}]}}}}

    (container,) = apply(bench, body, path=path).json["spec"]["template"]["spec"]["containers"]

    assert container["image"] == "busybox:1"
    assert container["resources"] == {"limits": {"cpu": "1"}}


def test_the_body_may_be_yaml(bench):
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: values\ndata:\n  a: one\n"

    answer = bench.cluster.request("PATCH", PATH, {"fieldManager": "me"}, {"Content-Type": APPLY}, body)

    assert answer.status == 201
    assert bench.get(PATH).json["data"] == {"a": "one"}


def test_a_manager_is_required_also_for_a_create(bench):
    assert apply(bench, config_map("values"), "").refusal == (400, "BadRequest")
    bench.post(CONFIG_MAPS, config_map("values"))
    assert apply(bench, config_map("values"), "").refusal == (400, "BadRequest")


def test_a_dry_run_stores_nothing(bench):
    assert apply(bench, config_map("values"), dryRun="All").status == 201
    assert bench.get(PATH).status == 404


def test_a_uid_that_does_not_match_is_a_conflict(bench):
    body = config_map("values", metadata={"uid": "other"})

    assert apply(bench, body).refusal == (409, "Conflict")
    bench.post(CONFIG_MAPS, config_map("values"))
    assert apply(bench, body).refusal == (409, "Conflict")


def test_a_field_that_its_creator_holds_too_stays_when_it_is_no_longer_applied(bench):
    bench.post(CONFIG_MAPS, config_map("values", data={"a": "1"}))
    apply(bench, config_map("values", data={"a": "1", "b": "2"}))

    assert apply(bench, config_map("values", data={"b": "2"})).json["data"] == {"a": "1", "b": "2"}


def test_a_field_that_was_taken_from_its_creator_goes_with_who_took_it(bench):
    bench.post(CONFIG_MAPS, config_map("values", data={"a": "1", "c": "1"}))
    apply(bench, config_map("values", data={"a": "1", "b": "2", "c": "1"}))
    apply(bench, config_map("values", data={"a": "2", "b": "2", "c": "1"}), force="true")
    bench.patch(PATH, {"data": {"c": "3"}})

    assert apply(bench, config_map("values", data={"b": "2"})).json["data"] == {"b": "2", "c": "3"}


def test_a_resource_version_that_is_not_the_current_one_is_a_conflict(bench):
    seen = apply(bench, config_map("values", data={"a": "1"})).json["metadata"]
    bench.patch(PATH, {"data": {"b": "2"}})
    body = config_map("values", data={"a": "2"}, metadata={"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]})

    assert apply(bench, body, force="true").refusal == (409, "Conflict")


def test_a_dry_run_of_a_change_has_the_version_that_is_stored(bench):
    before = apply(bench, config_map("values", data={"a": "1"})).json

    tried = apply(bench, config_map("values", data={"a": "2"}), dryRun="All").json

    assert tried["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert tried["data"] == {"a": "2"}
    assert apply(bench, config_map("values", data={"a": "1"}), dryRun="All").json == before == bench.get(PATH).json


def test_an_unknown_field_is_an_internal_error_as_it_is_of_a_real_server(bench):
    """https://github.com/kubernetes/kubernetes/issues/122480"""
    answer = apply(bench, config_map("values") | {"apiVersion": "v1", "kind": "ConfigMap", "dataa": {}})

    assert answer.refusal == (500, "")
    assert answer.json["message"] == (
        "failed to create typed patch object (default/values; /v1, Kind=ConfigMap): .dataa: field not declared in schema"
    )


def test_applying_the_same_again_changes_nothing_after_another_wrote_something_else(bench):
    apply(bench, config_map("values", data={"a": "1"}))
    before = bench.patch(PATH, {"data": {"b": "2"}}).json

    assert apply(bench, config_map("values", data={"a": "1"})).json == before

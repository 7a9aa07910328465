import pytest

from tests.unit.cluster_sim.harness import CONFIG_MAPS, JOBS, PODS, Bench, config_map, job


def named(bench: Bench, *names: str) -> None:
    for name in names:
        bench.post(CONFIG_MAPS, config_map(name, metadata={"labels": {"tier": name[0], "name": name}}))


def test_a_list_is_in_order_and_leaves_out_the_kind_of_its_items(bench):
    named(bench, "b", "a", "c")

    answer = bench.get(CONFIG_MAPS)

    assert answer.names == ["a", "b", "c"]
    assert answer.json["kind"] == "ConfigMapList"
    assert "kind" not in answer.items[0]
    assert int(answer.json["metadata"]["resourceVersion"]) == bench.cluster.resource_version


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=a", ["a1", "a2"]),
        ("tier==a,name!=a1", ["a2"]),
        ("tier in (a, b),name notin (a1)", ["a2", "b1"]),
        ("missing", []),
        ("tier,!missing", ["a1", "a2", "b1"]),
    ],
)
def test_label_selectors(bench, selector, names):
    named(bench, "a1", "a2", "b1")

    assert bench.get(CONFIG_MAPS, labelSelector=selector).names == names


@pytest.mark.parametrize("selector", ["tier in", "tier in ()", "tier=a,,name", "tier=-a"])
def test_a_label_selector_that_is_none_is_refused(bench, selector):
    assert bench.get(CONFIG_MAPS, labelSelector=selector).refusal == (400, "BadRequest")


def test_field_selectors(bench):
    named(bench, "a1", "a2")
    bench.start("train")

    assert bench.get(CONFIG_MAPS, fieldSelector="metadata.name=a2").names == ["a2"]
    assert len(bench.get("/api/v1/pods", fieldSelector="status.phase=Running,spec.nodeName=node-0").items) == 1
    assert bench.get("/api/v1/pods", fieldSelector="status.phase!=Running").items == []
    events = bench.get("/api/v1/events", fieldSelector="involvedObject.name=train,involvedObject.kind=Job").items
    assert [event["reason"] for event in events] == ["SuccessfulCreate"]
    assert bench.get(PODS, fieldSelector="spec.image=x").refusal == (400, "BadRequest")


def test_a_list_goes_across_namespaces(bench):
    bench.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    bench.post(JOBS, job("one"))
    bench.post("/apis/batch/v1/namespaces/other/jobs", job("two"))

    assert bench.get("/apis/batch/v1/jobs").names == ["one", "two"]
    assert bench.get("/apis/batch/v1/namespaces/other/jobs").names == ["two"]
    assert bench.get("/apis/batch/v1/jobs", fieldSelector="metadata.namespace=other").names == ["two"]


def test_pages_show_the_state_of_the_first_one(bench):
    named(bench, "a", "b", "c")

    first = bench.get(CONFIG_MAPS, limit=2)
    named(bench, "d")
    bench.delete(f"{CONFIG_MAPS}/c")
    second = bench.get(CONFIG_MAPS, limit=2, continue_=first.json["metadata"]["continue"])

    assert first.names == ["a", "b"]
    assert first.json["metadata"]["remainingItemCount"] == 1
    assert second.names == ["c"]
    assert "continue" not in second.json["metadata"]
    assert second.json["metadata"]["resourceVersion"] == first.json["metadata"]["resourceVersion"]


def test_an_old_page_is_expired(bench):
    named(bench, "a", "b")
    token = bench.get(CONFIG_MAPS, limit=1).json["metadata"]["continue"]

    bench.run(301)

    assert bench.get(CONFIG_MAPS, limit=1, continue_=token).refusal == (410, "Expired")
    assert bench.get(CONFIG_MAPS, limit=1, continue_="rubbish").refusal == (400, "BadRequest")


def test_a_version_from_the_future_times_out(bench):
    answer = bench.get(CONFIG_MAPS, resourceVersion=10_000_000)

    assert answer.refusal == (504, "Timeout")
    assert answer.headers["Retry-After"] == "1"


def test_what_is_not_there_is_not_found(bench):
    assert bench.get(f"{JOBS}/none").refusal == (404, "NotFound")
    assert bench.get("/apis/unknown/v1/things").refusal == (404, "NotFound")
    assert bench.call("POST", f"{JOBS}/none").refusal == (405, "MethodNotAllowed")


def test_the_api_describes_itself(bench):
    groups = [group["name"] for group in bench.get("/apis").json["groups"]]
    resources = {resource["name"] for resource in bench.get("/apis/batch/v1").json["resources"]}

    assert "batch" in groups
    assert {"jobs", "jobs/status"} <= resources
    assert "pods/log" in {resource["name"] for resource in bench.get("/api/v1").json["resources"]}
    assert bench.get("/version").json["major"] == "1"
    assert bench.get("/readyz").text == bench.get("/livez").text == "ok"

"""Jobs and what stands beside them: names, labels, and what takes a Job out of the fleet's hands."""

from typing import Any

import pytest

from tests.unit.policy_examples import a_config_map, a_job, a_service, admit, changed, problems


@pytest.mark.parametrize("name", ["a", "a-b", "0", "x" * 63])
def test_names_that_are_labels(name: str) -> None:
    assert admit(changed("/metadata/name", name)).name == name


@pytest.mark.parametrize("name", ["A", "-a", "a-", "a_b", "a.b", "x" * 64, "a\n", "é", 5])
def test_names_that_are_none(name: Any) -> None:
    assert "/manifest/metadata/name" in problems(changed("/metadata/name", name))


def named(**metadata: Any) -> dict[str, Any]:
    return {**a_job(), "metadata": metadata}


def test_no_name_is_generated_by_the_cluster() -> None:
    assert set(problems(named(generateName="train-"))) == {"/manifest/metadata/generateName", "/manifest/metadata/name"}
    assert set(problems(named(generateName="train-", name="mine"))) == {"/manifest/metadata/generateName"}


def test_a_name_is_required() -> None:
    assert "must be given" in problems(named())["/manifest/metadata/name"]
    assert "must be given" in problems(named(name=""))["/manifest/metadata/name"]


@pytest.mark.parametrize("key", ["a", "a.b/c", "A_b.c", "x" * 63, "example.com/" + "x" * 63, "simulation.gpufleet.io/duration"])
def test_label_keys(key: str) -> None:
    assert not problems(changed("/metadata/labels", {key: "v"}))


@pytest.mark.parametrize("key", ["", "-a", "a/b/c", "/a", "a/", "A.b/c", "x" * 64, "a b", "é", "x" * 254 + "/a"])
def test_keys_that_kubernetes_refuses(key: str) -> None:
    job = a_job()
    job["metadata"]["labels"] = {key: "v"}
    assert len(problems(job)) == 1
    job["metadata"]["labels"] = {}
    job["metadata"]["annotations"] = {key: "v"}
    assert len(problems(job)) == (0 if key == "A.b/c" else 1)


@pytest.mark.parametrize("value", ["-a", "a-", "x" * 64, "a b", "a/b", "é", 1, True])
def test_label_values_that_kubernetes_refuses(value: Any) -> None:
    assert "/manifest/metadata/labels/k" in problems(changed("/metadata/labels/k", value))


@pytest.mark.parametrize("key", ["gpufleet.io/job-id", "x.gpufleet.io/a", "GPUFLEET.io/released"])
@pytest.mark.parametrize(
    "where", ["/metadata/labels", "/metadata/annotations", "/spec/template/metadata/labels", "/spec/template/metadata/annotations"]
)
def test_the_fleets_own_keys_are_refused_everywhere(where: str, key: str) -> None:
    job = changed(where, {key: "v"})
    assert f"/manifest{where}/{key.replace('/', '~1')}" in problems(job)
    assert "/labels/gpufleet.io~1managed" in problems(a_job(), labels={"gpufleet.io/managed": "v"})
    service = a_service()
    service["metadata"]["labels"] = {"gpufleet.io/managed": "v"}
    assert "/supporting/0/metadata/labels/gpufleet.io~1managed" in problems(a_job(), service)


def test_annotations_have_a_size() -> None:
    assert not problems(changed("/metadata/annotations", {"a": "x" * (240 * 1024 - 1)}))
    assert "has 245761" in problems(changed("/metadata/annotations", {"a": "x" * (240 * 1024)}))["/manifest/metadata/annotations"]


@pytest.mark.parametrize("name", ["uid", "resourceVersion", "finalizers", "ownerReferences", "deletionTimestamp"])
def test_what_only_a_cluster_sets_is_refused(name: str) -> None:
    value: Any = (
        ["x"]
        if name == "finalizers"
        else [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]
        if name == "ownerReferences"
        else "x"
    )
    assert set(problems(changed(f"/metadata/{name}", value))) == {f"/manifest/metadata/{name}"}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("/spec/suspend", True),
        ("/spec/manualSelector", True),
        ("/spec/selector", {"matchLabels": {"a": "b"}}),
        ("/spec/managedBy", "kueue.x-k8s.io/multikueue"),
        ("/spec/completionMode", "Other"),
        ("/spec/parallelism", -1),
        ("/spec/completions", -1),
        ("/spec/backoffLimit", -1),
        ("/spec/activeDeadlineSeconds", -1),
        ("/spec/ttlSecondsAfterFinished", -1),
        ("/spec/template/spec/restartPolicy", "Always"),
        ("/spec/template/spec/restartPolicy", None),
        ("/spec/template/spec/activeDeadlineSeconds", 0),
        ("/spec/template/spec/containers", []),
        ("/spec/template/metadata/labels/job-name", "x"),
        ("/spec/template/metadata/labels/batch.kubernetes.io~1job-name", "x"),
        ("/spec/template/spec/containers/0/env/0/name", "GPUFLEET_JOB_ID"),
        ("/spec/template/spec/containers/0/name", "Main"),
    ],
)
def test_what_the_cluster_or_the_fleet_could_not_work_with(place: str, value: Any) -> None:
    assert set(problems(changed(place, value))) == {f"/manifest{place}"}


def test_suspend_false_is_what_a_user_means_anyway() -> None:
    assert not problems(a_job(suspend=False, managedBy="kubernetes.io/job-controller"))


def test_indexed_jobs_need_completions_that_fit_into_names() -> None:
    assert "/manifest/spec/completions" in problems(a_job(completionMode="Indexed"))
    assert not problems(a_job(completionMode="Indexed", completions=100_000))
    assert "/manifest/spec/completions" in problems(a_job(completionMode="Indexed", completions=100_001))


def test_failure_policies_need_pods_that_never_restart() -> None:
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    job = changed("/spec/template/spec/restartPolicy", "OnFailure", job=a_job(podFailurePolicy=policy))
    assert set(problems(job)) == {"/manifest/spec/template/spec/restartPolicy"}
    assert set(problems(a_job(podFailurePolicy=policy, podReplacementPolicy="TerminatingOrFailed"))) == {
        "/manifest/spec/podReplacementPolicy"
    }


def test_container_names_stand_once_over_all_sorts() -> None:
    job = changed("/spec/template/spec/initContainers", [{"name": "main", "image": "busybox"}])
    assert set(problems(job)) == {"/manifest/spec/template/spec/containers/0/name"}


def test_labels_of_the_submission_follow_the_same_rules() -> None:
    assert not problems(a_job(), labels={"team": "vision"})
    assert set(problems(a_job(), labels={"a b": "x", "c": "-", "d": 1, "job-name": "x"})) == {
        "/labels/a b",
        "/labels/c",
        "/labels/d",
        "/labels/job-name",
    }


# Supporting objects


@pytest.mark.parametrize("spec", [{}, {"ports": [{"port": 80}]}, {"clusterIP": "", "ports": [{"port": 80}]}, {"type": "ClusterIP"}])
def test_services_inside_the_cluster(spec: dict[str, Any]) -> None:
    assert not problems(a_job(), a_service(**spec))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("type", "NodePort"),
        ("type", "LoadBalancer"),
        ("type", "ExternalName"),
        ("externalIPs", ["1.2.3.4"]),
        ("externalName", "example.com"),
        ("loadBalancerIP", "1.2.3.4"),
        ("loadBalancerSourceRanges", ["0.0.0.0/0"]),
        ("loadBalancerClass", "x"),
    ],
)
def test_services_that_reach_outside(name: str, value: Any) -> None:
    assert set(problems(a_job(), a_service(**{name: value}))) == {f"/supporting/0/spec/{name}"}


def test_ports_of_nodes_and_services_without_ports() -> None:
    assert "/supporting/0/spec/ports/0/nodePort" in problems(a_job(), a_service(ports=[{"port": 80, "nodePort": 30000}]))
    assert "/supporting/0/spec/ports" in problems(a_job(), a_service(clusterIP=None))


@pytest.mark.parametrize("name", ["1a", "A", "", None, "a.b"])
def test_names_of_services(name: Any) -> None:
    service = a_service()
    service["metadata"]["name"] = name
    assert "/supporting/0/metadata/name" in problems(a_job(), service)


def test_names_of_config_maps_may_have_dots_and_stand_once() -> None:
    config = a_config_map(a="b")
    config["metadata"]["name"] = "a.b"
    assert not problems(a_job(), config)
    assert set(problems(a_job(), config, a_config_map(), config)) == {"/supporting/2/metadata/name"}


@pytest.mark.parametrize("key", ["a b", "a/b", "..", "..x", "x" * 254])
def test_keys_of_config_maps(key: str) -> None:
    assert len(problems(a_job(), a_config_map(**{key: "v"}))) == 1


def test_binary_data_is_base64_under_keys_of_its_own() -> None:
    config = {**a_config_map(a="b"), "binaryData": {"c": "aGVsbG8="}}
    assert not problems(a_job(), config)
    assert set(problems(a_job(), {**config, "binaryData": {"a": "aGVsbG8="}})) == {"/supporting/0/binaryData/a"}
    assert set(problems(a_job(), {**config, "binaryData": {"c": "aGVsbG8"}})) == {"/supporting/0/binaryData/c"}


def test_a_config_map_holds_a_mebibyte() -> None:
    assert not problems(a_job(), a_config_map(a="x" * 1024 * 1024))
    assert "/supporting/0" in problems(a_job(), a_config_map(a="x" * 1024 * 1024, b="y"))


def test_only_services_and_config_maps_stand_beside() -> None:
    assert set(problems(a_job(), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})) == {"/supporting/0/kind"}
    assert set(problems(a_job(), a_job())) == {"/supporting/0/kind"}

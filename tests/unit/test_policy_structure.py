"""The structure of manifests: unknown fields, wrong types, quantities; held to the verdicts of the generic validator."""

import copy
import json
import random
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing import Registry, Resource

from shared.errors import InvalidError
from shared.policy import schemas
from shared.policy.fields import Field, Report
from tests.unit.policy_examples import (
    a_config_map,
    a_cron_job,
    a_job,
    a_pod,
    a_service,
    a_train_job,
    a_workload,
    changed,
    direct_problems,
    problems,
)

LIMITS = "/spec/template/spec/containers/0/resources/limits"


@pytest.mark.parametrize("quantity", ["1K", "1 Gi", "1gi", "1GiB", "NaN", "", True, [], {}])
@pytest.mark.parametrize(
    "place", [f"{LIMITS}/cpu", f"{LIMITS}/memory", f"{LIMITS}/nvidia.com~1gpu", "/spec/template/spec/volumes/0/emptyDir/sizeLimit"]
)
def test_a_wrong_quantity_is_refused_wherever_one_stands(quantity: Any, place: str) -> None:
    job = changed("/spec/template/spec/volumes", [{"name": "v", "emptyDir": {}}], job=a_job(gpus=1))
    assert f"/manifest{place}" in problems(changed(place, quantity, job=job))


@pytest.mark.parametrize("quantity", ["1e3", "1E3", "100m", "0.5", ".5", "1.", "+1", "129e6", "123Mi", 2, 0.5])
def test_every_form_of_quantity_is_fine(quantity: Any) -> None:
    job = changed("/spec/template/spec/containers/0/resources", {"limits": {"memory": quantity}})
    assert not problems(job)


@pytest.mark.parametrize(
    ("place", "value", "rule"),
    [
        ("/spec/parallelism", "2", "must be an integer"),
        ("/spec/parallelism", 1.0, "must be an integer"),
        ("/spec/parallelism", True, "must be an integer"),
        ("/spec/parallelism", 2**31, "must be from -2147483648 to 2147483647"),
        ("/spec/template/spec/hostNetwork", "true", "must be true or false"),
        ("/spec/template/spec/containers", {}, "must be an array"),
        ("/spec/template/spec/containers/0/env/0/value", 3, "must be a string"),
        ("/spec/template/spec/containers/0/command", "sh", "must be an array"),
        ("/spec/template", [], "must be an object"),
        ("/metadata/labels/n", 1, "must be a string"),
        ("/spec/template/spec/nodeSelector", {"a": True}, "must be"),
        ("/spec/unknown", 1, "must be a field of JobSpec"),
        ("/spec/backofLimit", 1, "did you mean 'backoffLimit'?"),
    ],
)
def test_wrong_types_and_unknown_fields_are_refused_in_their_place(place: str, value: Any, rule: str) -> None:
    found = problems(changed(place, value))
    key = next(key for key in found if key.startswith(f"/manifest{place}"))
    assert rule in found[key]


@pytest.mark.parametrize("place", ["/spec/template", "/spec/template/spec/containers", "/spec/template/spec/containers/0/name"])
def test_what_is_required_is_told_by_its_own_place(place: str) -> None:
    job = changed(place, None)
    parent: Any = job
    *steps, last = place.strip("/").split("/")
    for step in steps:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    del parent[last]
    assert f"/manifest{place}" in problems(job)


def test_null_and_what_the_cluster_writes_empty_count_as_left_out() -> None:
    job = changed("/metadata/creationTimestamp", None)
    job["status"] = {}
    job["spec"]["template"]["metadata"] = {"creationTimestamp": None}
    job["spec"]["completions"] = None
    assert not problems(job)


@pytest.mark.parametrize("junk", [None, True, 5, "x", [], {}, [None], {"a": None}, [[]], 1.5])
@pytest.mark.parametrize(
    "place",
    [
        "/metadata",
        "/metadata/name",
        "/metadata/labels",
        "/metadata/annotations",
        "/spec",
        "/spec/completionMode",
        "/spec/selector",
        "/spec/template",
        "/spec/template/metadata",
        "/spec/template/spec",
        "/spec/template/spec/containers",
        "/spec/template/spec/containers/0",
        "/spec/template/spec/initContainers",
        "/spec/template/spec/tolerations",
        "/spec/template/spec/volumes",
        "/spec/template/spec/securityContext",
        "/spec/template/spec/containers/0/image",
        "/spec/template/spec/containers/0/name",
        "/spec/template/spec/containers/0/resources",
        "/spec/template/spec/containers/0/securityContext",
        "/spec/template/spec/containers/0/livenessProbe",
        "/spec/template/spec/containers/0/ports",
        "/spec/template/spec/containers/0/env",
        "/spec/template/spec/restartPolicy",
        f"{LIMITS}/cpu",
    ],
)
def test_junk_in_any_place_is_judged_and_never_crashes(place: str, junk: Any) -> None:
    problems(changed(place, junk, job=a_job(gpus=1)), changed(place, junk, job=a_service()), changed(place, junk, job=a_config_map()))


# The generic validator as the judge of ours, on mutations of good objects.


def generic(name: str) -> Any:
    directory = schemas._directory()
    schema = json.loads((directory / f"{name}.json").read_text())
    definitions = json.loads((directory / "_definitions.json").read_text())
    # Quantities are ours to judge, and the generic `oneOf` of the other takes null for both of its types.
    definitions["$defs"][schemas._QUANTITY] = {}
    definitions["$defs"][schemas._INT_OR_STRING] = {"type": ["string", "integer", "null"]}
    registry = Resource.from_contents(definitions) @ (Resource.from_contents(schema) @ Registry())
    checker = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    return jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=checker)(schema, registry=registry)


JUDGES = {
    "Job": generic("job-batch-v1"),
    "Service": generic("service-v1"),
    "ConfigMap": generic("configmap-v1"),
    "CronJob": generic("cronjob-batch-v1"),
    "Deployment": generic("deployment-apps-v1"),
    "StatefulSet": generic("statefulset-apps-v1"),
    "DaemonSet": generic("daemonset-apps-v1"),
    "Pod": generic("pod-v1"),
}
RICH_JOB = changed(
    "/spec/template/spec/affinity",
    {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        }
    },
    job=changed(
        "/spec/template/spec/volumes", [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "w", "configMap": {"name": "c"}}]
    ),
)
RICH_JOB["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 3}


def mutated(value: Any, seed: int) -> Any:
    """A copy with one value replaced, removed or added at a random place."""
    rng = random.Random(seed)
    root = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []

    def walk(found: Any) -> None:
        for key, inner in list(found.items()) if isinstance(found, dict) else list(enumerate(found)):
            if not (found is root and key in ("apiVersion", "kind")):
                places.append((found, key))
            if isinstance(inner, dict | list):
                walk(inner)

    walk(root)
    if not places:
        return root
    holder, key = rng.choice(places)
    action = rng.choice(["replace", "remove", "add"])
    junk = rng.choice([None, True, 0, 7, 1.5, "", "x", "1Gi", [], {}, ["x"], {"x": "y"}, [{}], [1]])
    if action == "remove" and isinstance(holder, dict):
        del holder[key]
    elif action == "add" and isinstance(holder[key], dict):
        holder[key][rng.choice(["name", "extra", "value", "metadata", "spec", "key"])] = junk
    else:
        holder[key] = junk
    return root


GOOD = [RICH_JOB, a_job(gpus=1), a_service(ports=[{"port": 80, "targetPort": "http"}]), a_config_map(a="b")]
DIRECT = [
    a_cron_job(gpus=1),
    *(a_workload(kind, gpus=1) for kind in ("Deployment", "StatefulSet", "DaemonSet")),
    a_pod(gpus=1),
]


@given(st.sampled_from([*GOOD, *DIRECT]), st.integers())
def test_our_verdict_on_structure_is_the_generic_validators(base: dict[str, Any], seed: int) -> None:
    value = mutated(base, seed)
    expected = {"".join(f"/{step}" for step in error.absolute_path) for error in JUDGES[base["kind"]].iter_errors(value)}
    report = Report()
    schemas.check_structure(Field(value, report=report, base=""), api_version=base["apiVersion"], kind=base["kind"])
    try:
        report.finish()
        found: set[str] = set()
    except InvalidError as error:
        found = {problem.pointer for problem in error.problems if "Kubernetes quantity" not in problem.rule}
    # Ours points at the field that is unknown or missing, the generic one at the object around it.
    for pointer in found:
        assert pointer.replace("~1", "/") in expected or pointer.rpartition("/")[0].replace("~1", "/") in expected
    assert bool(found) == bool(expected)


@given(st.sampled_from(GOOD[:2]), st.sampled_from(GOOD[2:]), st.lists(st.integers(), min_size=1, max_size=4))
def test_whatever_is_changed_in_good_objects_is_judged_and_never_crashes(job: Any, beside: Any, seeds: list[int]) -> None:
    for seed in seeds:
        job, beside = mutated(job, seed), mutated(beside, seed)
    problems(job, beside)


@given(st.sampled_from([*GOOD, *DIRECT, a_train_job(gpus=1, nodes=2)]), st.lists(st.integers(), min_size=1, max_size=4))
def test_whatever_is_changed_in_objects_that_are_applied_directly_is_judged_and_never_crashes(found: Any, seeds: list[int]) -> None:
    for seed in seeds:
        found = mutated(found, seed)
    direct_problems(found)

"""What is made of a template, and what is wrong with one."""

from __future__ import annotations

import copy

import pytest

from shared.errors import InvalidError, TooLargeError
from shared.policy.manifests import check_manifest
from shared.policy.settings import Policy
from shared.templates.instances import check_template, instance
from shared.templates.model import Content

POLICY = Policy()
SPEC = "/manifest/spec/template/spec"


def job(**changes):
    """A Job that the policy admits, with changes by path (`spec__parallelism`)."""
    container = {"name": "main", "image": "pytorch/pytorch", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    found = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "anything"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    for path, value in changes.items():
        *way, last = path.split("__")
        inner = found
        for part in way:
            inner = inner[int(part)] if part.isdigit() else inner[part]
        inner[last] = value
    return found


CONTAINER = "spec__template__spec__containers__0__"


def made(manifest, defaults=None, given=None, *, name="mine", namespace="gco-jobs"):
    found = instance(manifest, defaults or {}, given or {}, name=name, namespace=namespace, template="tpl", policy=POLICY)
    check_manifest(found.manifest, namespace=namespace, policy=POLICY)
    return found


def refused(manifest, defaults=None, given=None, *, name="mine", namespace="gco-jobs"):
    with pytest.raises(InvalidError) as error:
        instance(manifest, defaults or {}, given or {}, name=name, namespace=namespace, template="tpl", policy=POLICY)
    return {problem.pointer: problem.rule for problem in error.value.problems}


def wrong(manifest, defaults=None, name="tpl"):
    return {problem.pointer: problem.rule for problem in check_template(name, manifest, defaults or {}, policy=POLICY)}


def test_name_and_label_are_those_of_the_request():
    for metadata in (None, {}, {"labels": None}, {"name": "x", "generateName": "z-", "annotations": None}):
        found = made(job(metadata=metadata)).manifest["metadata"]

        assert (found["name"], found["labels"]) == ("mine", {"gco.io/template": "tpl"})
        assert found.keys().isdisjoint({"generateName", "namespace"})


@pytest.mark.parametrize("wanted", ["gco-jobs", None])
def test_the_namespace_of_a_manifest_stands(wanted):
    found = made(job(metadata={"namespace": "{{ns}}"}), {}, {"ns": "gco-jobs"}, namespace=wanted)

    assert found.manifest["metadata"]["namespace"] == "gco-jobs"


@pytest.mark.parametrize(
    ("manifest", "namespace"),
    [
        ({"metadata": {"namespace": "team-b"}}, "team-b"),
        ({"metadata": {"namespace": "{{ns}}"}}, None),
        ({"metadata": {"namespace": "team-{{ns}}"}}, None),
        ({"metadata": {"namespace": "{{}}"}}, "{{}}"),
        ({"metadata": {"namespace": ""}}, None),
        ({"metadata": {"namespace": 5}}, None),
        ({"metadata": {}}, None),
        ({"metadata": None}, None),
        ({"metadata": []}, None),
        ({}, None),
    ],
)
def test_a_template_belongs_to_the_namespace_that_it_names(manifest, namespace):
    assert Content(manifest=manifest).namespace == namespace


@pytest.mark.parametrize("namespace", ["elsewhere", "{{ns}}"])
def test_a_namespace_that_is_not_allowed_is_told_of_the_template(namespace):
    found = wrong(job(metadata={"namespace": namespace}), {"ns": "elsewhere"} if "{{" in namespace else {})

    assert list(found) == ["/manifest/metadata/namespace"]
    assert "must be an allowed namespace: gco-jobs" in found["/manifest/metadata/namespace"]
    assert wrong(job(metadata={"namespace": "{{ns}}"})) == {}


def test_labels_of_the_user_stay():
    found = made(job(metadata={"labels": {"team": "vision", "gco.io/template": "another"}})).manifest

    assert found["metadata"]["labels"] == {"team": "vision", "gco.io/template": "tpl"}


def test_the_name_is_a_parameter_too():
    found = made(job(**{CONTAINER + "args": ["--run={{name}}", "{{name}}"]}), {"name": "unused"}, {"name": "mine"})

    assert found.manifest["spec"]["template"]["spec"]["containers"][0]["args"] == ["--run=mine", "mine"]
    assert found.parameters == {"name": "mine"}
    assert "must be left out, or be the name of what is made, 'mine'" in refused(job(), {}, {"name": "another"})["/parameters/name"]


def test_given_parameters_go_over_defaults():
    manifest = job(spec__parallelism="{{n}}", spec__completions="{{m}}")
    found = made(manifest, {"n": 1, "m": 2}, {"n": 3})

    assert (found.manifest["spec"]["parallelism"], found.manifest["spec"]["completions"]) == (3, 2)
    assert found.parameters == {"n": 3, "m": 2, "name": "mine"}


def test_a_value_that_looks_like_structure_stays_one_string():
    """Case 21."""
    hostile = 'x","hostNetwork":true,"z":"y'
    found = made(job(**{CONTAINER + "env": [{"name": "A", "value": "{{v}}"}]}), {}, {"v": hostile}).manifest

    assert found["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": hostile}]
    assert "hostNetwork" not in found["spec"]["template"]["spec"]


def test_a_number_is_text_where_only_text_is_taken_and_a_number_elsewhere():
    manifest = job(
        spec__parallelism="{{n}}",
        metadata={"labels": {"n": "{{n}}"}},
        **{
            CONTAINER + "args": ["{{n}}", "{{flag}}", "{{rate}}"],
            CONTAINER + "env": [{"name": f"E{i}", "value": "{{n}}"} for i in range(300)],
        },
    )
    found = made(manifest, {}, {"n": 3, "flag": True, "rate": 1e-05}).manifest
    container = found["spec"]["template"]["spec"]["containers"][0]

    assert (found["spec"]["parallelism"], found["metadata"]["labels"]["n"]) == (3, "3")
    assert container["args"] == ["3", "true", "1e-05"]
    assert {one["value"] for one in container["env"]} == {"3"}


def test_missing_unknown_and_wrong_parameters_come_at_once_with_what_else_is_wrong():
    manifest = job(
        **{CONTAINER + "image": "{{image}}", CONTAINER + "args": ["--x={{x}}"], CONTAINER + "command": "{{command}}"},
        spec__template__spec__hostNetwork=True,
        metadata=None,
    )
    found = refused(manifest, {}, {"x": {"a": 1}, "y": 2}, name="Not A Name")

    assert found.keys() == {"/parameters/image", "/parameters/command", "/parameters/x", "/parameters/y", "/name", f"{SPEC}/hostNetwork"}
    assert "must be given" in found["/parameters/image"]
    assert f"{SPEC}/containers/0/image" in found["/parameters/image"]
    assert "which has command, image, x" in found["/parameters/y"]


def test_what_a_list_would_hold_is_no_one_object():
    manifest = {"apiVersion": "v1", "kind": "{{kind}}", "items": [job()]}

    assert "not of a list" in refused(manifest, {}, {"kind": "List"})["/manifest/kind"]


def test_values_that_would_make_too_much_are_refused():
    with pytest.raises(TooLargeError):
        made(job(**{CONTAINER + "args": ["{{a}}"] * 50}), {}, {"a": "x" * 100_000})


def test_the_template_is_not_changed():
    manifest = job(spec__parallelism="{{n}}", metadata={"labels": {"n": "{{n}}"}})
    before = copy.deepcopy(manifest)
    made(manifest, {}, {"n": 3})

    assert manifest == before


@pytest.mark.parametrize("name", ["train", "GPU_Training.v2", "a", "x" * 63])
def test_a_good_template_has_no_problems(name):
    assert wrong(job(spec__parallelism="{{n}}"), {"n": 2}, name) == {}


@pytest.mark.parametrize("name", ["-a", "a-", "a b", "a/b", ".", "..", "é", "x" * 64, "a\n", "{{a}}"])
def test_a_name_that_no_label_can_have_is_refused(name):
    assert wrong(job(), name=name).keys() == {"/name"}


def test_a_default_that_nothing_uses_is_told():
    assert wrong(job(), {"n": 1, "a/b": 2}).keys() == {"/parameters/n", "/parameters/a~1b"}


def test_a_template_is_checked_with_its_defaults():
    manifest = job(spec__parallelism="{{n}}", **{CONTAINER + "image": "{{image}}", CONTAINER + "args": ["{{n}}"]})

    assert wrong(manifest, {"n": 2, "image": "pytorch/pytorch"}) == {}
    found = wrong(manifest, {"n": "two", "image": "evil/miner"})
    assert found.keys() == {"/manifest/spec/parallelism", f"{SPEC}/containers/0/image"}


def test_what_required_parameters_leave_undecided_is_not_told():
    manifest = job(
        spec__parallelism="{{n}}",
        spec__template__spec__tolerations="{{tolerations}}",
        spec__template__spec__hostPID=True,
        **{
            CONTAINER + "image": "{{image}}:latest",
            CONTAINER + "securityContext": {"privileged": True},
            CONTAINER + "resources": {"limits": {"nvidia.com/gpu": "{{gpus}}", "{{resource}}": 1}},
        },
    )

    assert wrong(manifest).keys() == {f"{SPEC}/hostPID", f"{SPEC}/containers/0/securityContext/privileged"}


def test_what_hangs_on_a_default_is_told_although_another_is_required():
    manifest = job(spec__parallelism="{{n}}", **{CONTAINER + "image": "{{image}}"})

    assert wrong(manifest, {"n": -1}).keys() == {"/manifest/spec/parallelism"}


@pytest.mark.parametrize("manifest", [{}, {"kind": "Job"}, {"metadata": []}, {"apiVersion": "v1", "kind": "Secret", "metadata": {}}])
def test_what_is_no_manifest_is_told(manifest):
    assert wrong(manifest)


def test_a_hundred_thousand_places_are_looked_at_in_no_time():
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"k{number}": "{{n}}" for number in range(60_000)}}

    assert wrong(manifest) == {}
    assert len(wrong(manifest, {"n": {}})) >= 1


def test_a_rule_about_something_that_an_open_place_is_part_of_is_not_told():
    gpu = {CONTAINER + "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": 1}}}
    tolerated = job(spec__template__spec__tolerations="{{tolerations}}", **gpu)
    named = job(spec__template__spec__tolerations=[{"key": "{{key}}", "operator": "Exists"}], **gpu)

    assert wrong(job(**gpu)).keys() == {f"{SPEC}/tolerations"}
    assert wrong(tolerated) == {}
    assert wrong(named) == {}
    assert wrong(named, {"key": "nvidia.com/gpu"}) == {}
    assert wrong(named, {"key": "another"}).keys() == {f"{SPEC}/tolerations"}

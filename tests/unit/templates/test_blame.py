"""Templates that can't be meant, and problems that name the parameters that they come from."""

from __future__ import annotations

import pytest

from shared.errors import InvalidError
from shared.policy.settings import Policy
from shared.templates.instances import all_problems, check_template, instance
from tests.unit.templates.test_instances import CONTAINER, SPEC, job, wrong

POLICY = Policy()


def blamed(manifest, given, defaults=None):
    found = all_problems(manifest, defaults or {}, given, name="mine", namespace="gco-jobs", template="tpl", policy=POLICY)
    return {problem.pointer: problem.rule for problem in found}


@pytest.mark.parametrize(
    ("manifest", "missing"),
    [
        ({"{{k}}": 1}, {"apiVersion", "kind"}),
        ({"{{k}}": 1, "{{l}}": 2}, {"apiVersion", "kind"}),
        ({"{{k}}": "Job"}, {"apiVersion", "kind"}),
        ({"kind": "{{kind}}"}, {"apiVersion"}),
        ({"apiVersion": "batch/v1", "spec": "{{spec}}"}, {"kind"}),
        ({"kind": "Job", "{{k}}": "batch/v1"}, set()),
        ({"{{k}}": "batch/v1", "{{l}}": "Job"}, set()),
        ({"apiVersion": "{{version}}", "kind": "{{kind}}"}, set()),
    ],
)
def test_a_template_without_version_or_kind_is_refused_unless_a_key_may_become_it(manifest, missing):
    assert wrong(manifest).keys() == {f"/manifest/{name}" for name in missing}


def test_a_version_that_is_missing_is_told_once():
    for manifest in ({"kind": "Job", "spec": "{{spec}}"}, {"metadata": {"labels": {"a": "{{b}}"}}}):
        found = [problem.pointer for problem in check_template("tpl", manifest, {}, policy=POLICY)]

        assert len(found) == len(set(found))
        assert {"/manifest/apiVersion", "/manifest/kind"} & set(found)


def test_a_placeholder_that_is_not_closed_is_told_at_its_place():
    manifest = job(**{CONTAINER + "args": ["{{ n", "{{m}", "echo }} {{ .State }}"]})

    found = wrong(manifest)

    assert found[f"{SPEC}/containers/0/args/0"] == "must close the placeholder that it begins: {{n}}"
    assert found[f"{SPEC}/containers/0/args/1"] == "must close the placeholder that it begins: {{m}}"
    assert f"{SPEC}/containers/0/args/2" not in found


def test_a_problem_of_a_value_names_its_parameter():
    manifest = job(spec__parallelism="{{n}}", spec__completions=-1, **{CONTAINER + "image": "{{registry}}/{{image}}:1"})

    found = blamed(manifest, {"n": "four", "image": "miner"}, {"registry": "evil.example"})

    assert found["/manifest/spec/parallelism"] == "must be an integer (from the parameter 'n')"
    assert found[f"{SPEC}/containers/0/image"].endswith(" (from the parameters 'registry' and 'image')")
    assert "parameter" not in found["/manifest/spec/completions"]


def test_what_is_within_a_value_or_beneath_a_key_is_of_that_parameter():
    container = {"name": "x", "image": "pytorch/pytorch", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "{{k}}": 1}
    manifest = job(spec__template__spec__containers=["{{container}}", container])

    found = blamed(manifest, {"container": {"name": "y", "image": 5}, "k": "argz"})

    assert found[f"{SPEC}/containers/0/image"].endswith("(from the parameter 'container')")
    assert found[f"{SPEC}/containers/1/argz"].endswith("(from the parameter 'k')")


def test_what_the_request_says_itself_is_no_parameters():
    found = blamed(job(metadata={"name": "{{name}}"}, spec__parallelism="{{n}}"), {"n": 0.5})

    assert found["/manifest/spec/parallelism"].endswith("(from the parameter 'n')")
    assert "/name" not in found
    bad_name = all_problems(job(metadata={"name": "{{name}}"}), {}, {}, name="Not A Name", namespace=None, template="t", policy=POLICY)
    assert [("parameter" in one.rule, one.pointer) for one in bad_name] == [(False, "/name")]


def test_it_is_named_with_parameters_that_are_missing_too():
    with pytest.raises(InvalidError) as refused:
        instance(
            job(spec__parallelism="{{n}}", spec__completions="{{m}}"),
            {},
            {"n": "four"},
            name="mine",
            namespace="gco-jobs",
            template="tpl",
            policy=POLICY,
        )

    told = {problem.pointer: problem.rule for problem in refused.value.problems}
    assert told.keys() == {"/parameters/m", "/manifest/spec/parallelism"}
    assert told["/manifest/spec/parallelism"] == "must be an integer (from the parameter 'n')"


def test_of_a_template_a_problem_of_a_default_names_its_parameter():
    assert wrong(job(spec__parallelism="{{n}}"), {"n": "four"}) == {
        "/manifest/spec/parallelism": "must be an integer (from the parameter 'n')"
    }

"""Admission as a whole: what is let in, what is told, and in which order."""

import copy
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from shared.errors import ForbiddenError, InvalidError, TooLargeError
from shared.policy import Policy, check
from tests.unit.policy_examples import GIB, a_config_map, a_job, a_service, admit, changed, main_of, problems


def test_a_good_job_is_admitted_with_what_it_will_hold() -> None:
    admission = admit(a_job(gpus=2, parallelism=3), a_service(), a_config_map(a="b"))
    assert (admission.name, admission.gpus, admission.demand.cpu, admission.demand.memory) == ("train", 6, 24, 192 * GIB)


def test_the_manifest_is_left_as_it_was() -> None:
    job = a_job(gpus=1)
    before = copy.deepcopy(job)
    admit(job)
    assert job == before


def test_all_problems_come_at_once_with_their_places() -> None:
    job = changed("/spec/template/spec/hostNetwork", True)
    job["spec"]["template"]["spec"]["contaners"] = []
    main_of(job)["image"] = "evil/x"
    main_of(job)["resources"]["limits"]["cpu"] = "1 Gi"
    job["metadata"]["labels"]["-"] = "x"
    found = problems(job, a_service(type="NodePort"), labels={"gpufleet.io/managed": "true"})
    assert list(found) == [
        "/labels/gpufleet.io~1managed",
        "/manifest/metadata/labels/-",
        "/manifest/spec/template/spec/containers/0/image",
        "/manifest/spec/template/spec/containers/0/resources/limits/cpu",
        "/manifest/spec/template/spec/contaners",
        "/manifest/spec/template/spec/hostNetwork",
        "/supporting/0/spec/type",
    ]
    assert "did you mean 'containers'" in found["/manifest/spec/template/spec/contaners"]


def test_pointers_begin_where_the_caller_says() -> None:
    found = problems({}, {}, pointer="", supporting_pointer="/objects")
    assert set(found) == {"/kind", "/objects/0/kind"}


def test_a_namespace_that_is_not_allowed_is_forbidden() -> None:
    with pytest.raises(ForbiddenError) as refused:
        admit(a_job(), namespace="kube-system")
    assert str(refused.value) == "Namespace 'kube-system' not allowed. Allowed namespaces: ['gco-jobs']"


def test_a_namespace_that_is_no_name_is_invalid() -> None:
    assert set(problems(a_job(), namespace="Not_a_name")) == {"/namespace"}


@pytest.mark.parametrize("namespace", ["default", 5])
def test_the_manifest_must_be_of_the_namespace_of_the_submission(namespace: Any) -> None:
    assert "/manifest/metadata/namespace" in problems(changed("/metadata/namespace", namespace))
    assert not problems(changed("/metadata/namespace", "gco-jobs"))


@pytest.mark.parametrize(
    ("api_version", "kind", "pointer"),
    [
        ("v1", "Pod", "/manifest/kind"),
        ("apps/v1", "Deployment", "/manifest/kind"),
        ("batch/v1beta1", "Job", "/manifest/apiVersion"),
        (None, "Job", "/manifest/apiVersion"),
        ("batch/v1", "job", "/manifest/kind"),
        ("batch/v1", None, "/manifest/kind"),
        ("batch/v1", ["Job"], "/manifest/kind"),
    ],
)
def test_only_jobs_of_the_one_version_are_main_objects(api_version: Any, kind: Any, pointer: str) -> None:
    job = {**a_job(), "apiVersion": api_version, "kind": kind}
    assert set(problems(job)) == {pointer}


@pytest.mark.parametrize("manifest", [None, [], "x", 5, {"apiVersion": "batch/v1", "kind": "Job"}])
def test_anything_else_than_a_whole_object_is_refused(manifest: Any) -> None:
    assert problems(manifest)


def test_what_is_too_deep_is_refused_before_anything_walks_it() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    found = problems(changed("/spec/x", deep))
    assert "at most 50 levels" in next(iter(found.values()))


# Sizes: a job as large as documented is admitted, a larger one is refused with its size, and none fails in another way.


def sized(size: int) -> dict[str, Any]:
    job = changed("/spec/template/spec/containers/0/env/0/value", "")
    missing = size - len(json.dumps(job, separators=(",", ":")))
    return changed("/spec/template/spec/containers/0/env/0/value", "x" * missing, job=job)


@pytest.mark.parametrize("size", [255 * 1024, 390_000, 401_000, 1_441_792])
def test_manifests_up_to_the_limit_are_admitted(size: int) -> None:
    assert admit(sized(size))


def test_a_quarter_of_a_million_accented_letters_count_as_their_bytes() -> None:
    assert admit(changed("/spec/template/spec/containers/0/env/0/value", "é" * 250_000))


def test_beyond_the_limit_size_and_limit_are_told() -> None:
    with pytest.raises(TooLargeError) as refused:
        admit(sized(1_441_793))
    assert (refused.value.size, refused.value.limit) == (1_441_793, 1_441_792)


def test_all_objects_together_have_a_limit() -> None:
    with pytest.raises(TooLargeError, match="the specification is"):
        admit(sized(1_400_000), a_config_map(a="x" * 700_000))


def test_problems_are_told_up_to_a_hundred() -> None:
    job = changed("/spec/template/spec/containers/0/env", [{"name": "A", "wrong": 1}] * 5_000)
    with pytest.raises(InvalidError) as refused:
        check(job, [], namespace="gco-jobs", policy=Policy())
    assert len(refused.value.problems) == 100


@pytest.mark.timeout(60)
def test_the_largest_manifest_of_tiny_values_is_judged() -> None:
    job = changed("/spec/template/spec/containers/0/env", [{"name": "A"}] * 33_000)

    assert admit(job).name


def test_a_policy_may_allow_fewer_kinds_but_none_without_rules() -> None:
    assert "/supporting/0/kind" in problems(a_job(), a_service(), policy=Policy(supporting_kinds=(("v1", "ConfigMap"),)))
    with pytest.raises(ValueError, match="no rules for v1 Pod"):
        Policy(main_kinds=(("v1", "Pod"),))


def test_importing_the_policy_loads_no_heavy_package() -> None:
    code = "import sys, shared.policy; print([m for m in ('jsonschema', 'yaml', 'kubernetes', 'pydantic', 'boto3') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert found.stdout.strip() == "[]"

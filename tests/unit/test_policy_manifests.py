"""Admission of objects that are applied directly: the rules of the queue's jobs, without those that are only the queue's."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from shared.errors import ForbiddenError, InvalidError, Problem, TooLargeError
from shared.policy import Admission, Policy, check
from shared.policy.manifests import Verdict, check_manifest, check_parts, judge_parts
from shared.policy.resources import Demand
from tests.unit.policy_examples import GIB, a_config_map, a_job, a_service, changed, main_of, pod_of

TWO = Policy(allowed_namespaces=("gco-jobs", "team-vision"))


def manifest_admissions(*manifests: Any, namespace: str | None = None, policy: Policy | None = None) -> list[Admission]:
    return check_parts(parts(*manifests), namespace=namespace, policy=policy or Policy())


def parts(*manifests: Any) -> list[tuple[str, Any]]:
    return [(f"/manifests/{index}", manifest) for index, manifest in enumerate(manifests)]


def refused(*manifests: Any, **options: Any) -> tuple[Problem, ...]:
    with pytest.raises((InvalidError, ForbiddenError, TooLargeError)) as told:
        manifest_admissions(*manifests, **options)
    return told.value.problems


def pointers(*manifests: Any, **options: Any) -> list[str]:
    return [problem.pointer for problem in refused(*manifests, **options)]


def in_namespace(namespace: Any, manifest: dict[str, Any] | None = None) -> dict[str, Any]:
    return changed("/metadata/namespace", namespace, job=manifest)


def test_what_is_admitted_is_told_in_order() -> None:
    admissions = manifest_admissions(a_config_map(a="b"), in_namespace("gco-jobs", a_job(gpus=2, parallelism=3)))

    assert admissions == [
        Admission(api_version="v1", kind="ConfigMap", namespace="gco-jobs", name="settings", demand=Demand()),
        Admission(
            api_version="batch/v1",
            kind="Job",
            namespace="gco-jobs",
            name="train",
            demand=Demand(cpu=number(24), memory=192 * GIB, gpus=number(6)),
        ),
    ]


def number(count: int) -> Decimal:
    return Decimal(count)


BAD_JOBS = {
    "host network": changed("/spec/template/spec/hostNetwork", True),
    "untrusted image": changed("/spec/template/spec/containers/0/image", "evil/x"),
    "bad quantity": changed("/spec/template/spec/containers/0/resources/limits/cpu", "1 Gi"),
    "too many GPUs": a_job(gpus=8, parallelism=1000),
    "no toleration": changed("/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu", 1),
    "unknown field": changed("/spec/backofLimit", 1),
    "old version": {**a_job(), "apiVersion": "batch/v1beta1"},
    "fleet's label": changed("/metadata/labels/gpufleet.io~1managed", "true"),
    "own selector": changed("/spec/selector", {"matchLabels": {"a": "b"}}),
    "no name": changed("/metadata", {}),
    "generated name": changed("/metadata", {"generateName": "x-"}),
    "no spec": {key: value for key, value in a_job().items() if key != "spec"},
    "restarts": changed("/spec/template/spec/restartPolicy", "Always"),
    "other namespace": in_namespace("default"),
    "too large": changed("/spec/template/spec/containers/0/env/0/value", "x" * 1_500_000),
    "no object": ["x"],
}


@pytest.mark.parametrize("job", BAD_JOBS.values(), ids=BAD_JOBS)
def test_a_bad_job_is_told_in_the_same_words_as_one_of_the_queue(job: Any) -> None:
    with pytest.raises((InvalidError, TooLargeError)) as queued:
        check(job, namespace="gco-jobs", policy=Policy(), pointer="/manifests/0")

    with pytest.raises(type(queued.value)) as applied:
        manifest_admissions(job, namespace="gco-jobs")

    assert applied.value.problems == queued.value.problems


@pytest.mark.parametrize("spec", [{"suspend": True}, {"managedBy": "kueue.x-k8s.io/multikueue"}])
def test_what_only_the_queue_refuses_may_be_applied(spec: dict[str, Any]) -> None:
    assert manifest_admissions(a_job(**spec))


def test_kueues_label_may_be_applied() -> None:
    assert manifest_admissions(changed("/metadata/labels/kueue.x-k8s.io~1queue-name", "team"))


def test_all_problems_of_all_manifests_come_at_once() -> None:
    bad = changed("/spec/template/spec/hostNetwork", True)
    main_of(bad)["image"] = "evil/x"

    assert pointers(bad, "text", a_service(type="NodePort"), {"apiVersion": "v1", "kind": "Secret"}, namespace="kube-system") == [
        "/manifests/0/spec/template/spec/containers/0/image",
        "/manifests/0/spec/template/spec/hostNetwork",
        "/manifests/1",
        "/manifests/2/spec/type",
        "/manifests/3/kind",
        "/namespace",
    ]
    assert pod_of(bad)["hostNetwork"]


def test_one_manifest_is_told_by_its_own_place() -> None:
    assert check_manifest(a_job(), namespace=None, policy=Policy()).name == "train"
    with pytest.raises(InvalidError) as told:
        check_manifest(a_job(parallelism=-1), namespace=None, policy=Policy(), pointer="/template")
    assert [problem.pointer for problem in told.value.problems] == ["/template/spec/parallelism"]


# Namespaces


def test_a_manifest_without_a_namespace_gets_the_requests_or_the_default() -> None:
    assert [one.namespace for one in manifest_admissions(a_job(), namespace=None)] == ["gco-jobs"]
    assert [one.namespace for one in manifest_admissions(a_job(), namespace="team-vision", policy=TWO)] == ["team-vision"]


def test_without_one_of_the_request_each_manifest_has_its_own() -> None:
    admissions = manifest_admissions(a_job(), in_namespace("team-vision"), policy=TWO)

    assert [one.namespace for one in admissions] == ["gco-jobs", "team-vision"]


def test_two_different_namespaces_of_one_object_are_a_problem() -> None:
    [problem] = refused(in_namespace("team-vision"), namespace="gco-jobs", policy=TWO)

    assert problem.pointer == "/manifests/0/metadata/namespace"
    assert problem.rule == "must be 'gco-jobs', the namespace of the submission, or be left out"


@pytest.mark.parametrize(
    ("manifests", "namespace", "places"),
    [
        ([a_job()], "kube-system", ["/namespace"]),
        ([in_namespace("kube-system")], "kube-system", ["/namespace"]),
        ([a_job(), in_namespace("kube-system")], None, ["/manifests/1/metadata/namespace"]),
        ([in_namespace("a"), in_namespace("b")], None, ["/manifests/0/metadata/namespace", "/manifests/1/metadata/namespace"]),
    ],
)
def test_namespaces_that_are_not_allowed_are_forbidden_where_they_stand(
    manifests: list[Any], namespace: str | None, places: list[str]
) -> None:
    with pytest.raises(ForbiddenError, match=r"Namespace '.*' not allowed. Allowed namespaces: \['gco-jobs'\]") as told:
        manifest_admissions(*manifests, namespace=namespace)

    assert [problem.pointer for problem in told.value.problems] == places


def test_the_default_namespace_must_be_allowed_too_where_it_is_meant() -> None:
    policy = Policy(allowed_namespaces=("team-vision",))
    with pytest.raises(ForbiddenError, match="'gco-jobs' not allowed"):
        manifest_admissions(a_job(), policy=policy)
    assert manifest_admissions(in_namespace("team-vision"), policy=policy)


@pytest.mark.parametrize("namespace", ["Not_a_name", 5, ["x"]])
def test_a_namespace_that_is_none_is_invalid(namespace: Any) -> None:
    assert "/manifests/0/metadata/namespace" in pointers(in_namespace(namespace))


# Several of the same


def test_the_same_object_stands_once_in_a_request() -> None:
    [problem] = refused(a_job(), a_service(), a_job())

    assert problem.pointer == "/manifests/2/metadata/name"
    assert problem.rule == "must stand only once in a request: there is a Job of this name at /manifests/0"


def test_the_same_name_in_another_namespace_or_of_another_kind_is_another_object() -> None:
    config = a_config_map(a="b")
    config["metadata"]["name"] = "train"

    assert len(manifest_admissions(a_job(), config, in_namespace("team-vision"), policy=TWO)) == 3


def test_each_object_can_be_judged_for_itself() -> None:
    bad = a_job(parallelism=-1)
    job, repeated, wrong, other = judge_parts(parts(a_job(), a_job(), bad, a_service()), namespace=None, policy=Policy())

    assert job.admission is not None
    assert (job.admission.kind, job.problems) == ("Job", ())
    assert other == Verdict(pointer="/manifests/3", admission=check_manifest(a_service(), namespace=None, policy=Policy()))
    assert [problem.rule for problem in repeated.problems] == [
        "must stand only once in a request: there is a Job of this name at /manifests/0"
    ]
    assert [problem.pointer for problem in wrong.problems] == ["/manifests/2/spec/parallelism"]


def test_a_namespace_that_is_not_allowed_and_a_size_are_told_of_each_object() -> None:
    large = changed("/spec/template/spec/containers/0/env/0/value", "x" * 1_500_000)
    forbidden, too_large = judge_parts(parts(in_namespace("kube-system"), large), namespace=None, policy=Policy())

    assert [problem.pointer for problem in forbidden.problems] == ["/manifests/0/metadata/namespace"]
    assert [problem.pointer for problem in too_large.problems] == ["/manifests/1"]

"""The caps count what would run; requests keep to the rules of the API server; accelerators are tolerated."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy import Policy
from tests.unit.policy_examples import GIB, GPU_TOLERATION, a_job, admit, changed, main_of, pod_of, problems

LIMITS = "/manifest/spec/template/spec/containers/0/resources/limits"
REQUESTS = "/manifest/spec/template/spec/containers/0/resources/requests"


def container(name: str, cpu: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox", "resources": {"limits": {"cpu": cpu}} if cpu is not None else {}, **more}


def a_pod_of(containers: list[dict[str, Any]], init: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    job = a_job(**spec)
    pod_of(job).update(containers=containers, initContainers=init or [])
    return job


def test_a_thousand_pods_of_eight_gpus_are_refused_with_the_figure() -> None:
    found = problems(a_job(gpus=8, parallelism=1000))
    assert "16 GPUs: 1000 pods at once with 8 each are 8000" in found["/manifest/spec/parallelism"]


@pytest.mark.parametrize(
    ("parallelism", "completions", "pods"),
    [(None, None, 1), (2, None, 2), (4, 2, 2), (1, 1000, 1), (0, None, 0), (2, 0, 0), (None, 5, 1), (2, 2, 2)],
)
def test_what_runs_at_once_is_the_lesser_of_parallelism_and_completions(parallelism: Any, completions: Any, pods: int) -> None:
    admission = admit(a_job(gpus=1, parallelism=parallelism, completions=completions))
    assert (admission.gpus, admission.demand.cpu, admission.demand.memory) == (pods, 8 * pods, 64 * GIB * pods)


def test_the_caps_themselves_are_allowed_and_the_least_beyond_is_not() -> None:
    assert admit(a_job(gpus=8, parallelism=2)).gpus == 16
    assert problems(a_job(gpus=17))
    assert problems(changed("/spec/template/spec/containers/0/resources/limits/cpu", "4", job=a_job(gpus=1, parallelism=17)))
    assert admit(changed("/spec/template/spec/containers/0/resources/limits/cpu", "384")).demand.cpu == 384
    assert problems(changed("/spec/template/spec/containers/0/resources/limits/cpu", "384.000000001"))
    assert admit(changed("/spec/template/spec/containers/0/resources/limits/memory", "4096Gi")).demand.memory == 4096 * GIB
    assert problems(changed("/spec/template/spec/containers/0/resources/limits/memory", "4398046511105"))


def test_containers_add_up_and_init_containers_come_before() -> None:
    assert admit(a_pod_of([container("a", 2), container("b", "500m")], [container("i", 1), container("j", 4)])).demand.cpu == 4
    assert admit(a_pod_of([container("a", 2), container("b", 3)], [container("i", 1), container("j", 4)])).demand.cpu == 5


def test_sidecars_run_beside_what_comes_after_them() -> None:
    sidecar = container("s", 1, restartPolicy="Always")
    assert admit(a_pod_of([container("a", 2)], [sidecar])).demand.cpu == 3
    assert admit(a_pod_of([container("a", 2)], [container("i", 4), sidecar])).demand.cpu == 4
    assert admit(a_pod_of([container("a", 2)], [sidecar, container("i", 4)])).demand.cpu == 5
    two = [sidecar, container("t", 3, restartPolicy="Always")]
    assert admit(a_pod_of([container("a", 2)], two)).demand.cpu == 6
    assert admit(a_pod_of([container("a", 2)], [*two, container("i", 4)])).demand.cpu == 8


def test_requests_count_where_there_is_no_limit_and_the_pods_own_count_too() -> None:
    job = a_pod_of([{"name": "a", "image": "busybox", "resources": {"requests": {"cpu": "3"}}}])
    assert admit(job).demand.cpu == 3
    pod_of(job)["resources"] = {"limits": {"cpu": "7"}}
    assert admit(job).demand.cpu == 7


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=5), st.integers(0, 20))
def test_the_sum_is_exact(millicores: list[int], parallelism: int) -> None:
    job = a_pod_of([container(f"c{index}", f"{amount}m") for index, amount in enumerate(millicores)], parallelism=parallelism)
    policy = Policy(max_cpu=Decimal(10**6))
    assert admit(job, policy=policy).demand.cpu == Decimal(sum(millicores)) * parallelism / 1000


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "amd.com/gpu",
        "aws.amazon.com/neuron",
        "nvidia.com/mig-1g.5gb",
        "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    ],
)
def test_every_kind_of_gpu_counts_under_the_cap(resource: str) -> None:
    job = a_job()
    main_of(job)["resources"]["limits"][resource] = 17
    pod_of(job)["tolerations"] = [{"operator": "Exists"}]
    assert "17" in problems(job)["/manifest/spec/template/spec"]
    main_of(job)["resources"]["limits"][resource] = 3
    assert admit(job).gpus == 3


def test_gpus_of_different_kinds_add_up() -> None:
    job = a_job(gpus=9)
    main_of(job)["resources"]["limits"]["amd.com/gpu"] = 8
    pod_of(job)["tolerations"] = [{"operator": "Exists"}]
    assert "17" in problems(job)["/manifest/spec/template/spec"]


@pytest.mark.parametrize("quantity", ["0.5", "500m", 0.5, "1.0000000001"])
def test_gpus_come_whole(quantity: Any) -> None:
    assert problems(a_job(gpus=quantity))[f"{LIMITS}/nvidia.com~1gpu"] == "must be a whole number"


@pytest.mark.parametrize("quantity", ["2", 2, "2000m", "2e0", "0.002k"])
def test_a_whole_number_of_gpus_may_be_written_in_any_form(quantity: Any) -> None:
    assert admit(a_job(gpus=quantity)).gpus == 2


def test_gpus_in_requests_need_the_same_limit() -> None:
    job = a_job(gpus=2)
    main_of(job)["resources"]["requests"]["nvidia.com/gpu"] = "2"
    assert not problems(job)
    main_of(job)["resources"]["requests"]["nvidia.com/gpu"] = 1
    assert "must equal the limit, 2" in problems(job)[f"{REQUESTS}/nvidia.com~1gpu"]
    del main_of(job)["resources"]["limits"]["nvidia.com/gpu"]
    assert "as a limit too" in problems(job)[f"{REQUESTS}/nvidia.com~1gpu"]


def test_requests_do_not_go_beyond_limits() -> None:
    found = problems(changed("/spec/template/spec/containers/0/resources/requests/cpu", "8.001"))
    assert found == {f"{REQUESTS}/cpu": "must not be more than the limit, 8"}


@pytest.mark.parametrize("quantity", ["-1", -1, "-1m"])
def test_nothing_negative_lowers_the_sum(quantity: Any) -> None:
    job = a_job(gpus=16, parallelism=1)
    pod_of(job)["containers"].append({"name": "b", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": quantity}}})
    assert "must not be negative" in str(problems(job))


@pytest.mark.parametrize("name", ["gpu", "nvidia.com/GPU_", "nvidia.com/", "CPU", "/x", "a b/c"])
def test_resources_have_names_that_a_cluster_knows(name: str) -> None:
    job = a_job()
    main_of(job)["resources"]["limits"][name] = 1
    assert f"{LIMITS}/{name.replace('/', '~1')}" in problems(job)


@pytest.mark.parametrize("quantity", ["1e36", "9" * 64, "1e-36", "99999999999999999999999999999999.5E", "1000Ei"])
@pytest.mark.parametrize("resource", ["cpu", "memory", "nvidia.com/gpu"])
def test_absurd_numbers_are_judged_without_trouble(quantity: str, resource: str) -> None:
    job = a_job(gpus=1, parallelism=2**31 - 1)
    main_of(job)["resources"]["limits"][resource] = quantity
    assert problems(job)


# Tolerations


def with_tolerations(*tolerations: dict[str, Any], resource: str = "nvidia.com/gpu") -> dict[str, Any]:
    job = a_job()
    main_of(job)["resources"]["limits"][resource] = 1
    pod_of(job)["tolerations"] = list(tolerations)
    return job


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa"])
def test_an_accelerator_must_be_tolerated(resource: str) -> None:
    found = problems(with_tolerations(resource=resource))
    assert f"must tolerate {resource}=true:NoSchedule" in found["/manifest/spec/template/spec/tolerations"]
    good = {"key": resource, "value": "true", "effect": "NoSchedule"}
    assert not problems(with_tolerations(good, resource=resource))


@pytest.mark.parametrize(
    "toleration",
    [
        GPU_TOLERATION,
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoSchedule"},
        {"key": "", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "value": "true"},
        {"key": "nvidia.com/gpu", "value": "true", "effect": ""},
    ],
)
def test_whatever_kubernetes_takes_for_a_match_is_one(toleration: dict[str, Any]) -> None:
    assert not problems(with_tolerations({"key": "x", "operator": "Exists"}, toleration))


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "nvidia.com/gpu", "value": "yes"},
        {"key": "nvidia.com/gpu"},
        {"key": "nvidia.com/gpu", "value": "true", "effect": "NoExecute"},
        {"key": "amd.com/gpu", "operator": "Exists"},
        {"operator": "Equal", "value": "true"},
        {"operator": "Exists", "effect": "PreferNoSchedule"},
    ],
)
def test_what_does_not_match_the_taint_does_not_count(toleration: dict[str, Any]) -> None:
    assert "/manifest/spec/template/spec/tolerations" in problems(with_tolerations(toleration))


def test_an_init_container_needs_the_toleration_too_and_zero_needs_none() -> None:
    job = a_job(gpus=0)
    pod_of(job)["tolerations"] = []
    assert not problems(job)
    pod_of(job)["initContainers"] = [{"name": "i", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": 1}}}]
    assert "/manifest/spec/template/spec/tolerations" in problems(job)
    assert not problems(job, policy=Policy(require_accelerator_toleration=False))

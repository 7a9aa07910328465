"""What a pod may not do: each rule alone, in every place where it can be broken, and each switch."""

from typing import Any

import pytest

from shared.policy import Policy, Security
from tests.unit.policy_examples import a_job, changed, pod_of, problems

POD = "/spec/template/spec"
CONTAINERS = ["/spec/template/spec/containers/0", "/spec/template/spec/initContainers/0"]

SWITCHED_POD: list[tuple[str, str, Any]] = [
    ("block_host_network", f"{POD}/hostNetwork", True),
    ("block_host_pid", f"{POD}/hostPID", True),
    ("block_host_ipc", f"{POD}/hostIPC", True),
    ("block_run_as_root", f"{POD}/securityContext/runAsUser", 0),
]
SWITCHED_CONTAINER: list[tuple[str, str, Any]] = [
    ("block_privileged", "privileged", True),
    ("block_privilege_escalation", "allowPrivilegeEscalation", True),
    ("block_run_as_root", "runAsUser", 0),
]


def base() -> dict[str, Any]:
    job = a_job()
    pod_of(job)["initContainers"] = [{"name": "fetch", "image": "busybox"}]
    return job


def switched(name: str, value: bool) -> Policy:
    return Policy(security=Security(**{name: value}))


@pytest.mark.parametrize(("switch", "place", "value"), SWITCHED_POD)
def test_pod_switches(switch: str, place: str, value: Any) -> None:
    job = changed(place, value, job=base())
    assert set(problems(job, policy=switched(switch, True))) == {f"/manifest{place}"}
    assert not problems(job, policy=switched(switch, False))


@pytest.mark.parametrize("where", CONTAINERS)
@pytest.mark.parametrize(("switch", "name", "value"), SWITCHED_CONTAINER)
def test_container_switches(switch: str, name: str, value: Any, where: str) -> None:
    place = f"{where}/securityContext/{name}"
    job = changed(place, value, job=base())
    assert set(problems(job, policy=switched(switch, True))) == {f"/manifest{place}"}
    assert not problems(job, policy=switched(switch, False))


@pytest.mark.parametrize("where", CONTAINERS)
def test_added_capabilities(where: str) -> None:
    place = f"{where}/securityContext/capabilities"
    assert f"/manifest{place}/add" in problems(changed(place, {"add": ["SYS_ADMIN"]}, job=base()))
    assert not problems(changed(place, {"add": ["SYS_ADMIN"]}, job=base()), policy=switched("block_added_capabilities", False))
    assert not problems(changed(place, {"drop": ["ALL"], "add": []}, job=base()))


def test_host_paths() -> None:
    job = changed(f"{POD}/volumes", [{"name": "a", "emptyDir": {}}, {"name": "v", "hostPath": {"path": "/"}}])
    assert set(problems(job)) == {f"/manifest{POD}/volumes/1/hostPath"}
    assert not problems(job, policy=switched("block_host_path", False))


def test_root_is_allowed_by_default_and_falsehood_is_not_zero() -> None:
    assert not problems(changed(f"{POD}/securityContext/runAsUser", 0))
    assert not problems(changed(f"{POD}/securityContext/runAsUser", 1000), policy=switched("block_run_as_root", True))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("securityContext/procMount", "Unmasked"),
        ("securityContext/seccompProfile/type", "Unconfined"),
        ("securityContext/appArmorProfile/type", "Unconfined"),
        ("securityContext/windowsOptions/hostProcess", True),
        ("securityContext/seLinuxOptions/type", "spc_t"),
        ("securityContext/seLinuxOptions/user", "system_u"),
        ("livenessProbe/httpGet", {"port": 80, "host": "169.254.169.254"}),
        ("startupProbe/tcpSocket", {"port": 80, "host": "10.0.0.1"}),
        ("lifecycle/postStart/httpGet", {"port": 80, "host": "10.0.0.1"}),
        ("ports", [{"containerPort": 80, "hostPort": 80}]),
    ],
)
@pytest.mark.parametrize("where", CONTAINERS)
def test_what_no_switch_allows_in_a_container(where: str, place: str, value: Any) -> None:
    found = problems(changed(f"{where}/{place}", value, job=base()))
    assert len(found) == 1
    assert next(iter(found)).startswith(f"/manifest{where}/{place}")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("securityContext/seccompProfile/type", "Unconfined"),
        ("securityContext/sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
        ("securityContext/windowsOptions/hostProcess", True),
        ("nodeName", "node-1"),
        ("resourceClaims", [{"name": "gpu", "resourceClaimTemplateName": "t"}]),
        ("ephemeralContainers", [{"name": "e", "image": "busybox"}]),
        ("priorityClassName", "system-node-critical"),
        ("serviceAccountName", "admin"),
        ("serviceAccount", "admin"),
    ],
)
def test_what_no_switch_allows_in_a_pod(place: str, value: Any) -> None:
    found = problems(changed(f"{POD}/{place}", value))
    assert len(found) == 1
    assert next(iter(found)).startswith(f"/manifest{POD}/{place}")


def test_what_harms_nobody_is_fine() -> None:
    job = base()
    pod_of(job).update(
        shareProcessNamespace=True,
        hostUsers=False,
        serviceAccountName="default",
        automountServiceAccountToken=True,
        securityContext={
            "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
            "seLinuxOptions": {"type": "container_t", "level": "s0:c1"},
            "fsGroup": 1,
        },
    )
    job = changed(f"{POD}/containers/0/securityContext", {"procMount": "Default", "allowPrivilegeEscalation": False}, job=job)
    job = changed(f"{POD}/containers/0/env/-", {"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, job=job)
    job = changed(f"{POD}/containers/0/livenessProbe", {"httpGet": {"port": 80, "path": "/"}}, job=job)
    assert not problems(job)


def test_a_service_account_may_be_allowed() -> None:
    assert not problems(changed(f"{POD}/serviceAccountName", "trainer"), policy=Policy(allowed_service_accounts=("default", "trainer")))


def test_an_ephemeral_container_is_judged_like_the_others() -> None:
    job = changed(f"{POD}/ephemeralContainers", [{"name": "e", "image": "evil/x", "securityContext": {"privileged": True}}])
    assert set(problems(job)) == {
        f"/manifest{POD}/ephemeralContainers",
        f"/manifest{POD}/ephemeralContainers/0/image",
        f"/manifest{POD}/ephemeralContainers/0/securityContext/privileged",
    }


def test_apparmor_stays_on_by_annotation_too() -> None:
    job = changed("/spec/template/metadata/annotations", {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"})
    assert len(problems(job)) == 1

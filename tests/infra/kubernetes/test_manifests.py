"""The manifests as they are written: of Kubernetes' shape, whole, hardened, and in accord with the code."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import asdict
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from shared.policy import Policy
from shared.policy.schemas import KUBERNETES_VERSION
from shared.settings import Settings
from workers.observer.usage import CLOSE_SECONDS

ROOT = Path(__file__).parents[3] / "infra" / "kubernetes"
BASE = ROOT / "base"
OTHERS = {"kustomize.config.k8s.io", "kueue.x-k8s.io"}  # kinds that Kubernetes itself doesn't know
BESIDE = {"AWS_REGION", "GPUFLEET_CLUSTER_REGION"}
"""Settings that others read than `Settings`: the AWS library, and the arguments of the workers."""


def read(path):
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def everything():
    return [one for path in sorted(BASE.glob("*.yaml")) for one in read(path) if one["kind"] != "Kustomization"]


def named(one):
    return f"{one['kind']}-{one['metadata'].get('namespace', '')}-{one['metadata']['name']}"


def of(kind):
    return [one for one in everything() if one["kind"] == kind]


ALL = everything()
PODS = [pytest.param(one, id=one["metadata"]["name"]) for one in ALL if one["kind"] == "Deployment"]


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.yaml")), ids=lambda path: str(path.relative_to(ROOT)))
def test_each_has_the_shape_that_kubernetes_knows(path):
    for one in read(path):
        if one["apiVersion"].partition("/")[0] not in OTHERS:
            kubernetes_validate.validate(one, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("kustomization.yaml")), ids=lambda path: path.parent.name)
def test_a_kustomization_names_every_file_beside_it_and_nothing_else(path):
    named = set(read(path)[0].get("resources", []))
    assert {name for name in named if name.endswith(".yaml")} == {one.name for one in path.parent.glob("*.yaml")} - {path.name}
    assert all((path.parent / name).exists() for name in (*named, *read(path)[0].get("components", [])))


def test_nothing_is_there_twice_and_all_of_it_can_be_found_by_its_label():
    assert len({named(one) for one in ALL}) == len(ALL)
    assert [named(one) for one in ALL if one["metadata"].get("labels", {}).get("app.kubernetes.io/part-of") != "gpufleet"] == []


def test_what_is_in_a_namespace_is_in_one_that_is_there():
    there = {one["metadata"]["name"] for one in of("Namespace")}
    assert {one["metadata"]["namespace"] for one in ALL if "namespace" in one["metadata"]} == there == {"gpufleet", "gco-jobs"}


@pytest.mark.parametrize("deployment", PODS)
def test_a_pod_meets_the_restricted_standard_and_more(deployment):
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/, on a root file system that nobody writes to."""
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] > 0
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"hostNetwork", "hostPID", "hostIPC"} & set(pod) == set()
    assert all(set(volume) - {"name"} == {"emptyDir"} and volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"])


@pytest.mark.parametrize("deployment", PODS)
def test_a_pod_is_given_longer_to_end_than_its_worker_takes(deployment):
    pod = deployment["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= Settings().shutdown_seconds + CLOSE_SECONDS + 15


@pytest.mark.parametrize("deployment", PODS)
def test_a_pod_runs_a_program_that_there_is_and_asks_for_memory_within_its_limit(deployment):
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    python, option, module = container["command"]
    assert (python, option) == ("python", "-m")
    assert importlib.util.find_spec(f"{module}.__main__") is not None
    resources = container["resources"]
    requested, most = (int(resources[part]["memory"].removesuffix("Mi")) for part in ("requests", "limits"))
    assert 128 <= requested < most
    assert "cpu" not in resources["limits"]


@pytest.mark.parametrize("deployment", PODS)
def test_probes_ask_the_port_at_which_the_worker_answers(deployment):
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {one["name"]: one for one in container["env"]}
    assert environment["GPUFLEET_PROBE_HOST"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert container["ports"] == [{"name": "probe", "containerPort": int(environment["GPUFLEET_PROBE_PORT"]["value"])}]
    for kind, path in {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}.items():
        assert container[f"{kind}Probe"]["httpGet"] == {"path": path, "port": "probe"}


@pytest.mark.parametrize("deployment", PODS)
def test_disruptions_and_updates_leave_somebody_at_work(deployment):
    name, labels = deployment["metadata"]["name"], deployment["spec"]["template"]["metadata"]["labels"]
    (budget,) = [one for one in of("PodDisruptionBudget") if one["metadata"]["name"] == name]
    for selector in (deployment["spec"]["selector"], budget["spec"]["selector"]):
        assert selector["matchLabels"].items() <= labels.items()
    assert budget["spec"]["maxUnavailable"] == 1  # a drain is never held up for ever, whatever the number of replicas
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("deployment", PODS)
def test_the_region_in_the_arguments_comes_from_the_settings(deployment):
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (settings,) = of("ConfigMap")
    assert container["envFrom"] == [{"configMapRef": {"name": settings["metadata"]["name"]}}]
    used = re.findall(r"\$\((\w+)\)", " ".join(container["args"]))
    assert used == ["GPUFLEET_CLUSTER_REGION"]
    assert set(used) <= set(settings["data"])


def test_every_setting_is_one_that_somebody_reads():
    (settings,) = of("ConfigMap")
    known = {f"GPUFLEET_{name.upper()}" for name in Settings.model_fields}
    assert set(settings["data"]) - known == BESIDE


def test_a_token_of_the_cluster_is_there_only_where_it_is_asked_for():
    assert all(one["automountServiceAccountToken"] is False for one in of("ServiceAccount"))
    assert {one["metadata"]["name"] for one in of("ServiceAccount")} == {
        one["spec"]["template"]["spec"]["serviceAccountName"]
        for one in of("Deployment")
        if one["spec"]["template"]["spec"]["automountServiceAccountToken"]
    }


def test_rights_are_named_one_by_one_and_bound_to_somebody():
    roles = {one["metadata"]["name"]: one for one in of("ClusterRole")}
    bindings = [*of("ClusterRoleBinding"), *of("RoleBinding")]
    assert [rule for role in roles.values() for rule in role["rules"] if "*" in str(rule)] == []
    assert sorted(one["roleRef"]["name"] for one in bindings) == sorted(roles)
    accounts = {one["metadata"]["name"] for one in of("ServiceAccount")}
    for binding in bindings:
        (subject,) = binding["subjects"]
        worker = binding["metadata"]["name"].split("-")[1]
        if subject["kind"] == "ServiceAccount":
            assert (subject["name"], subject["namespace"]) == (worker, "gpufleet")
            assert worker in accounts
        else:
            assert (subject["kind"], subject["name"]) == ("Group", f"gpufleet:{worker}")


def test_no_right_to_write_holds_in_the_whole_cluster():
    everywhere = {one["roleRef"]["name"] for one in of("ClusterRoleBinding")}
    rules = [rule for role in of("ClusterRole") if role["metadata"]["name"] in everywhere for rule in role["rules"]]
    assert {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list", "watch"}


def test_pods_of_jobs_are_held_to_the_standard_that_the_policy_follows():
    """https://kubernetes.io/docs/concepts/security/pod-security-admission/; `shared.policy.security` refuses what it does, and earlier."""
    enforced = {one["metadata"]["name"]: one["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") for one in of("Namespace")}
    assert enforced == {"gpufleet": "restricted", "gco-jobs": "baseline"}
    switches = asdict(Policy().security)
    assert {name for name, on in switches.items() if not on} == {"block_run_as_root"}  # which the standard permits too


def test_the_network_is_closed_but_for_what_is_named():
    (policy,) = of("NetworkPolicy")
    assert (policy["spec"]["podSelector"], sorted(policy["spec"]["policyTypes"])) == ({}, ["Egress", "Ingress"])
    assert "ingress" not in policy["spec"]
    ports = {(port["protocol"], port["port"]) for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert ports == {("UDP", 53), ("TCP", 53), ("TCP", 443), ("TCP", 80)}

"""The pod template of a Job: its containers, where their images come from, what they ask for, and the taints that they must tolerate."""

from __future__ import annotations

from shared.clusters.names import ENV_PREFIX
from shared.policy.fields import Field
from shared.policy.images import DOCKER_HUB, RULE, parse_reference, trusted
from shared.policy.metadata import LABEL_RULE, is_dns_label
from shared.policy.resources import asks_for, check_requests, containers
from shared.policy.settings import Policy, setting


def check_pod(pod: Field, policy: Policy) -> None:
    """Check the containers of a pod and what they need."""
    if not any(True for _ in pod["containers"].elements()):
        pod["containers"].refuse("must hold at least one container")
    names: set[str] = set()
    for container in containers(pod):
        _check_name(container["name"], names)
        _check_image(container["image"], policy)
        _check_env(container["env"])
        check_requests(container["resources"])
    check_requests(pod["resources"])
    for volume in pod["volumes"].elements():
        if volume["image"].given:
            _check_image(volume["image"]["reference"], policy)
    if policy.require_accelerator_toleration:
        for taint in policy.accelerator_taints:
            if asks_for(pod, taint) and not any(_tolerates(entry, taint) for entry in pod["tolerations"].elements()):
                pod["tolerations"].refuse(
                    f"must tolerate {taint}=true:NoSchedule, the taint of the nodes that have what a container asks for; "
                    f'add {{"key": "{taint}", "operator": "Equal", "value": "true", "effect": "NoSchedule"}}'
                )


def _check_name(name: Field, names: set[str]) -> None:
    if name.given and not is_dns_label(name.text):
        name.refuse(LABEL_RULE)
    elif name.text in names:
        name.refuse("must stand only once among the containers of the pod")
    names.add(name.text)


def _check_image(image: Field, policy: Policy) -> None:
    reference = parse_reference(image.text)
    if reference is None:
        image.refuse(RULE)
    elif not trusted(reference, registries=policy.trusted_registries, dockerhub_orgs=policy.trusted_dockerhub_orgs):
        organisations = ", ".join(policy.trusted_dockerhub_orgs)
        registries = ", ".join(entry for entry in policy.trusted_registries if entry != DOCKER_HUB)
        image.refuse(
            "must come from a trusted source: an official image of Docker Hub, "
            f"one of its organisations {organisations}, or one of the registries {registries}; "
            f"{setting('trusted_registries', 'trusted_dockerhub_orgs')} allows others"
        )


def _check_env(env: Field) -> None:
    for variable in env.elements():
        if variable["name"].text.startswith(ENV_PREFIX):
            variable["name"].refuse(f"must not begin with {ENV_PREFIX}, which belongs to the fleet")


def _tolerates(toleration: Field, key: str) -> bool:
    """Whether a toleration matches the taint `<key>=true:NoSchedule` (`Toleration.ToleratesTaint` in k8s.io/api/core/v1)."""
    if toleration["effect"].value not in (None, "", "NoSchedule"):
        return False
    named = toleration["key"].value
    if toleration["operator"].value == "Exists":
        return named in (None, "", key)
    return toleration["operator"].value in (None, "", "Equal") and named == key and toleration["value"].value == "true"

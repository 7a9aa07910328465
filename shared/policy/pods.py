"""Pod templates of every kind: containers, where their images come from, what they ask for, and the taints that they must tolerate."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shared.clusters.names import ENV_PREFIX
from shared.policy.fields import Field
from shared.policy.images import DOCKER_HUB, RULE, parse_reference, trusted
from shared.policy.metadata import LABEL_RULE, check_labels, check_marks, is_dns_label
from shared.policy.resources import asks_for, check_requests, containers
from shared.policy.security import check_pod_security
from shared.policy.settings import Policy, setting

_SET_BY_THE_JOB_CONTROLLER = ("controller-uid", "job-name")


def check_pod_template(template: Field, policy: Policy, *, claims: Collection[str] = ()) -> None:
    """Check what pods are made of: an object with `metadata` and `spec`. `claims` are volumes that its pods get besides."""
    check_marks(template["metadata"])
    check_pod(template, policy, claims=claims)


def check_pod(template: Field, policy: Policy, *, claims: Collection[str] = ()) -> None:
    """Check a pod, or a pod template, whose metadata was looked at as that of any object."""
    pod = template["spec"]
    if not any(True for _ in pod["containers"].elements()):
        pod["containers"].refuse("must hold at least one container")
    deadline = pod["activeDeadlineSeconds"]
    if deadline.integer is not None and deadline.integer < 1:
        deadline.refuse("must be at least 1")
    names: set[str] = set()
    volumes = {volume["name"].text for volume in pod["volumes"].elements()}.union(claims)
    for container in containers(pod):
        _check_name(container["name"], names)
        check_image(container["image"], policy)
        check_requests(container["resources"])
        _check_mounts(container, volumes)
    check_requests(pod["resources"])
    resources = [container["resources"] for container in containers(pod)]
    asked = [taint for taint in policy.accelerator_taints if asks_for(resources, taint)]
    check_tolerations(asked, pod["tolerations"].elements(), pod["tolerations"], policy)
    _check_any_part(template, policy)


def check_partial_template(template: Field, policy: Policy) -> None:
    """Check a part of a pod template, which is laid over another one; its containers may have no image."""
    check_marks(template["metadata"])
    _check_any_part(template, policy)


def check_pod_labels(labels: Field) -> None:
    """Check labels that pods will carry."""
    check_labels(labels)
    _check_foreign_labels(labels)


def _check_any_part(template: Field, policy: Policy) -> None:
    pod = template["spec"]
    _check_foreign_labels(template["metadata"]["labels"])
    for container in containers(pod):
        check_env(container["env"])
    for volume in pod["volumes"].elements():
        if volume["image"].given:
            check_image(volume["image"]["reference"], policy)
    check_pod_security(template, policy)


def _check_foreign_labels(labels: Field) -> None:
    """By these, a Job's controller would take a pod that isn't its own for one of its own."""
    for key, value in labels.items():
        if key.startswith("batch.kubernetes.io/") or key in _SET_BY_THE_JOB_CONTROLLER:
            value.refuse("must be left out: the Job controller sets this label")


def check_tolerations(asked: Iterable[str], tolerations: Iterable[Field], place: Field, policy: Policy) -> None:
    """Refuse, at a place, resources that are asked for while the taint of their nodes isn't tolerated."""
    found = list(tolerations)
    for taint in asked if policy.require_accelerator_toleration else ():
        if not any(_tolerates(entry, taint) for entry in found):
            place.refuse(
                f"must tolerate {taint}=true:NoSchedule, the taint of the nodes that have what a container asks for; "
                f'add {{"key": "{taint}", "operator": "Equal", "value": "true", "effect": "NoSchedule"}}'
            )


def check_image(image: Field, policy: Policy) -> None:
    """Check the reference of an image, and whether its source is trusted."""
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


def check_env(env: Field) -> None:
    """Refuse variables that belong to the fleet."""
    for variable in env.elements():
        if variable["name"].text.startswith(ENV_PREFIX):
            variable["name"].refuse(f"must not begin with {ENV_PREFIX}, which belongs to the fleet")


def _check_name(name: Field, names: set[str]) -> None:
    if name.given and not is_dns_label(name.text):
        name.refuse(LABEL_RULE)
    elif name.text in names:
        name.refuse("must stand only once among the containers of the pod")
    names.add(name.text)


def _check_mounts(container: Field, volumes: Collection[str]) -> None:
    for kind in ("volumeMounts", "volumeDevices"):
        for mount in container[kind].elements():
            if mount["name"].given and mount["name"].text not in volumes:
                mount["name"].refuse("must be the name of a volume of the pod")


def _tolerates(toleration: Field, key: str) -> bool:
    """Whether a toleration matches the taint `<key>=true:NoSchedule` (`Toleration.ToleratesTaint` in k8s.io/api/core/v1)."""
    if toleration["effect"].value not in (None, "", "NoSchedule"):
        return False
    named = toleration["key"].value
    if toleration["operator"].value == "Exists":
        return named in (None, "", key)
    return toleration["operator"].value in (None, "", "Equal") and named == key and toleration["value"].value == "true"

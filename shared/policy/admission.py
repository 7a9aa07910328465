"""The one question of admission: may this manifest, with what stands beside it, run here?

The order matters only for safety: first what would make the rest slow or unsafe to walk (nesting, sizes), then whether the caller may
use the namespace at all, then every rule at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from shared.clusters.trees import canonical, check_tree
from shared.errors import ForbiddenError, InvalidError, Problem, TooLargeError
from shared.policy.fields import Field, Report
from shared.policy.jobs import check_job, check_pod_labels
from shared.policy.metadata import LABEL_RULE, check_metadata, is_dns_label
from shared.policy.resources import check_caps, pod_demand, pods_at_once
from shared.policy.schemas import check_structure
from shared.policy.settings import Policy
from shared.policy.supporting import check_supporting


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """What an admitted manifest would hold while it runs, over all the pods that run at once, and the name that its objects get."""

    name: str
    """`metadata.name`."""
    gpus: int
    cpu: Decimal
    """Cores."""
    memory: Decimal
    """Bytes."""


def check(
    manifest: dict[str, Any],
    supporting: Sequence[dict[str, Any]] = (),
    *,
    namespace: str,
    policy: Policy,
    labels: Mapping[str, str] | None = None,
    pointer: str = "/manifest",
    supporting_pointer: str = "/supporting",
    namespace_pointer: str = "/namespace",
    labels_pointer: str = "/labels",
) -> Admission:
    """Admit a manifest or refuse it with all reasons; the manifest isn't changed.

    `labels` are those of the submission, which come on top of the manifest's own and reach its pods.

    Raises:
        InvalidError: all the rules that are broken, with JSON pointers that begin with those given.
        ForbiddenError: the namespace is not one of the policy's.
        TooLargeError: an object, or all together, is larger than the policy allows.
    """
    parts = [(pointer, manifest), *((f"{supporting_pointer}/{index}", item) for index, item in enumerate(supporting))]
    _check_trees([*parts, (labels_pointer, dict(labels or {}))], policy)
    _check_namespace(namespace, namespace_pointer, policy)
    _check_sizes(parts, policy)

    report = Report()
    _check_own_labels(Field(dict(labels or {}), report=report, base=labels_pointer))
    job = Field(manifest, report=report, base=pointer)
    admission = _check_main(job, namespace, policy)
    names: set[tuple[str, str]] = set()
    for place, item in parts[1:]:
        _check_beside(Field(item, report=report, base=place), namespace, policy, names)
    report.finish()
    return admission


def _check_trees(parts: Sequence[tuple[str, object]], policy: Policy) -> None:
    problems: list[Problem] = []
    for place, value in parts:
        try:
            check_tree(value, pointer=place, max_depth=policy.yaml_max_depth)
        except InvalidError as error:
            problems.extend(error.problems)
        if not isinstance(value, dict):
            problems.append(Problem(pointer=place, value=None, rule="must be an object"))
    if problems:
        raise InvalidError(problems)


def _check_namespace(namespace: str, pointer: str, policy: Policy) -> None:
    if not is_dns_label(namespace):
        raise InvalidError([Problem(pointer=pointer, value=namespace, rule=LABEL_RULE)])
    if namespace not in policy.allowed_namespaces:
        raise ForbiddenError(f"Namespace '{namespace}' not allowed. Allowed namespaces: {list(policy.allowed_namespaces)}")


def _check_sizes(parts: Sequence[tuple[str, dict[str, Any]]], policy: Policy) -> None:
    total = 0
    for place, item in parts:
        size = len(canonical(item))
        total += size
        if size > policy.max_object_bytes:
            raise TooLargeError(f"the object at {place}", size, policy.max_object_bytes)
    if total > policy.max_specification_bytes:
        raise TooLargeError("the specification", total, policy.max_specification_bytes)


def _check_own_labels(labels: Field) -> None:
    for key, value in labels.items():
        if not isinstance(value.value, str):
            labels[key].refuse("must be a string")
    check_pod_labels(labels)


def _check_main(job: Field, namespace: str, policy: Policy) -> Admission:
    if not _allowed(job, policy.main_kinds):
        return Admission(name="", gpus=0, cpu=Decimal(0), memory=Decimal(0))
    check_structure(job, api_version=job["apiVersion"].text, kind=job["kind"].text)
    _require_metadata(job)
    check_metadata(job["metadata"], namespace=namespace)
    name = check_job(job, policy)
    demand, pods = pod_demand(job.within("spec", "template", "spec"), policy), pods_at_once(job)
    check_caps(job, demand, pods, policy)
    total = demand.times(pods)
    return Admission(name=name, gpus=int(total.gpus), cpu=total.cpu, memory=total.memory)


def _check_beside(found: Field, namespace: str, policy: Policy, names: set[tuple[str, str]]) -> None:
    if not _allowed(found, policy.supporting_kinds):
        return
    kind, name = found["kind"].text, found.within("metadata", "name")
    check_structure(found, api_version=found["apiVersion"].text, kind=kind)
    _require_metadata(found)
    check_metadata(found["metadata"], namespace=namespace)
    check_supporting(found, kind)
    if (kind, name.text) in names:
        name.refuse(f"must stand only once among the supporting {kind}s")
    names.add((kind, name.text))


def _allowed(found: Field, kinds: Sequence[tuple[str, str]]) -> bool:
    api_version, kind = found["apiVersion"], found["kind"]
    if (api_version.text, kind.text) in kinds:
        return True
    versions = [version for version, allowed in kinds if allowed == kind.text]
    if versions:
        api_version.refuse(f"must be {' or '.join(versions)} for kind {kind.text}")
    else:
        kind.refuse(f"must be an allowed kind here: {', '.join(f'{allowed} ({version})' for version, allowed in kinds) or 'none'}")
    return False


def _require_metadata(found: Field) -> None:
    if not found["metadata"].given:
        found["metadata"].refuse("must be an object with a name")

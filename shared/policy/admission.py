"""The one question of admission: may this manifest, with what stands beside it, run here?

Every rule is asked, and all that is wrong is told at once: a namespace that is not allowed and an object that is too large hide nothing.
Only what is unsafe to walk (nesting, numbers of values) is looked at no further; sizes are bounded by whoever read the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from shared.clusters.trees import canonical, check_tree
from shared.errors import ForbiddenError, InvalidError, Problem, TooLargeError
from shared.policy.fields import Field, Report
from shared.policy.jobs import check_job, check_pod_labels
from shared.policy.metadata import LABEL_RULE, SUBDOMAIN_RULE, check_metadata, is_dns_label, is_dns_subdomain
from shared.policy.resources import check_caps, pod_demand, pods_at_once
from shared.policy.schemas import check_structure
from shared.policy.settings import Policy, setting
from shared.policy.supporting import check_supporting

Refusal = InvalidError | ForbiddenError | TooLargeError


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
    namespace: str | None,
    policy: Policy,
    labels: Mapping[str, str] | None = None,
    pointer: str = "/manifest",
    supporting_pointer: str = "/supporting",
    namespace_pointer: str = "/namespace",
    labels_pointer: str = "/labels",
) -> Admission:
    """Admit a manifest or refuse it with all reasons; the manifest isn't changed.

    `labels` are those of the submission, which come on top of the manifest's own and reach its pods. A `namespace` of None could not be
    read, of which its reader has told: what depends on it isn't asked.

    Raises:
        InvalidError: all the rules that are broken, with JSON pointers that begin with those given.
        ForbiddenError: the namespace is not one of the policy's, and nothing else is wrong.
        TooLargeError: an object, or all together, is larger than the policy allows, and nothing else is wrong.
    """
    parts = [(pointer, manifest), *((f"{supporting_pointer}/{index}", item) for index, item in enumerate(supporting))]
    own = dict(labels or {})
    refusals: list[Refusal] = []
    sound = {place: value for place, value in [*parts, (labels_pointer, own)] if _is_sound(value, place, policy, refusals)}
    refusals += _namespace_refusals(namespace, namespace_pointer, policy)
    refusals += _size_refusals([(place, item) for place, item in parts if place in sound], policy, pointer)
    report = Report()
    admission = Admission(name="", gpus=0, cpu=Decimal(0), memory=Decimal(0))
    names: set[tuple[str, str]] = set()
    try:
        if labels_pointer in sound:
            _check_own_labels(Field(own, report=report, base=labels_pointer))
        if pointer in sound:
            admission = _check_main(Field(manifest, report=report, base=pointer), namespace, policy)
        for place, item in parts[1:]:
            if place in sound:
                _check_beside(Field(item, report=report, base=place), namespace, policy, names)
        report.finish()
    except InvalidError as invalid:
        refusals.append(invalid)
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        raise InvalidError(sorted((one for refusal in refusals for one in refusal.problems), key=lambda problem: problem.pointer))
    return admission


def _is_sound(value: object, place: str, policy: Policy, refusals: list[Refusal]) -> bool:
    """Whether a part can be walked; what is against that is added to the refusals."""
    problems: list[Problem] = []
    try:
        check_tree(value, pointer=place, max_depth=policy.yaml_max_depth)
    except InvalidError as error:
        problems.extend(error.problems)
    if not isinstance(value, dict):
        problems.append(Problem(pointer=place, value=None, rule="must be an object"))
    if problems:
        refusals.append(InvalidError(problems))
    return not problems


def _namespace_refusals(namespace: str | None, pointer: str, policy: Policy) -> Iterator[Refusal]:
    if namespace is None or namespace in policy.allowed_namespaces:
        return
    if not is_dns_label(namespace):
        yield InvalidError([Problem(pointer=pointer, value=namespace, rule=LABEL_RULE)])
        return
    rule = f"must be an allowed namespace: {', '.join(policy.allowed_namespaces)}; {setting('allowed_namespaces')} allows others"
    yield ForbiddenError(
        f"Namespace '{namespace}' not allowed. Allowed namespaces: {list(policy.allowed_namespaces)}",
        problems=[Problem(pointer=pointer, value=namespace, rule=rule)],
    )


def _size_refusals(parts: Sequence[tuple[str, dict[str, Any]]], policy: Policy, pointer: str) -> Iterator[Refusal]:
    total, single = 0, False
    for place, item in parts:
        size = len(canonical(item))
        total += size
        if size > policy.max_object_bytes:
            single = True
            yield TooLargeError(f"the object at {place}", size, policy.max_object_bytes, pointer=place)
    if total > policy.max_specification_bytes and not single:
        yield TooLargeError("the specification", total, policy.max_specification_bytes, pointer=pointer)


def _check_own_labels(labels: Field) -> None:
    for key, value in labels.items():
        if not isinstance(value.value, str):
            labels[key].refuse("must be a string")
    check_pod_labels(labels)


def _check_main(job: Field, namespace: str | None, policy: Policy) -> Admission:
    ruled = _ruled(job, policy.main_kinds)
    if ruled is None:
        _check_unruled(job, namespace)
        return Admission(name="", gpus=0, cpu=Decimal(0), memory=Decimal(0))
    check_structure(job, api_version=ruled[0], kind=ruled[1])
    _require_metadata(job)
    check_metadata(job["metadata"], namespace=namespace)
    name = check_job(job, policy)
    demand, pods = pod_demand(job.within("spec", "template", "spec"), policy), pods_at_once(job)
    check_caps(job, demand, pods, policy)
    total = demand.times(pods)
    return Admission(name=name, gpus=int(total.gpus), cpu=total.cpu, memory=total.memory)


def _check_beside(found: Field, namespace: str | None, policy: Policy, names: set[tuple[str, str]]) -> None:
    ruled = _ruled(found, policy.supporting_kinds)
    if ruled is None:
        _check_unruled(found, namespace)
        return
    kind, name = ruled[1], found.within("metadata", "name")
    check_structure(found, api_version=ruled[0], kind=kind)
    _require_metadata(found)
    check_metadata(found["metadata"], namespace=namespace)
    check_supporting(found, kind)
    if (kind, name.text) in names:
        name.refuse(f"must stand only once among the supporting {kind}s")
    names.add((kind, name.text))


def _ruled(found: Field, kinds: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The apiVersion and kind by whose rules an object is judged: its own, or the allowed version of its kind, with a refusal."""
    api_version, kind = found["apiVersion"], found["kind"]
    if (api_version.text, kind.text) in kinds:
        return api_version.text, kind.text
    versions = [version for version, allowed in kinds if allowed == kind.text]
    if versions:
        api_version.refuse(f"must be {' or '.join(versions)} for kind {kind.text}")
        return versions[0], kind.text
    kind.refuse(f"must be an allowed kind here: {', '.join(f'{allowed} ({version})' for version, allowed in kinds) or 'none'}")
    return None


def _check_unruled(found: Field, namespace: str | None) -> None:
    """What holds for an object of any kind: an unknown kind doesn't hide a bad name."""
    metadata = found["metadata"]
    check_metadata(metadata, namespace=namespace)
    if metadata["name"].given and not is_dns_subdomain(metadata["name"].text):
        metadata["name"].refuse(SUBDOMAIN_RULE)


def _require_metadata(found: Field) -> None:
    if not found["metadata"].given:
        found["metadata"].refuse("must be an object with a name")

"""The one question of admission of a job for the queue: may this manifest, with what stands beside it, run here?

Every rule is asked, and all that is wrong is told at once: a namespace that is not allowed and an object that is too large hide nothing.
Only what is unsafe to walk (nesting, numbers of values) is looked at no further; sizes are bounded by whoever read the document.

Objects that are applied to a cluster directly are asked about in `shared.policy.manifests`, by the same rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.clusters.label_grammar import is_dns_subdomain
from shared.errors import TooLargeError
from shared.policy.fields import Field
from shared.policy.jobs import check_queued_job
from shared.policy.kinds import RULES
from shared.policy.metadata import SUBDOMAIN_RULE, check_metadata
from shared.policy.pods import check_pod_labels
from shared.policy.refusals import Refusals
from shared.policy.resources import Demand
from shared.policy.schemas import check_structure
from shared.policy.settings import Policy


@dataclass(frozen=True, kw_only=True, slots=True)
class Admission:
    """What an admitted manifest is, and what it would hold while it runs."""

    api_version: str
    kind: str
    namespace: str
    name: str
    """`metadata.name`."""
    demand: Demand
    """Over all the pods that run at once; nothing for an object that runs none."""

    @property
    def gpus(self) -> int:
        """Whole devices of any kind."""
        return int(self.demand.gpus)


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
    refusals = Refusals(policy)
    sound = {place: value for place, value in [*parts, (labels_pointer, own)] if refusals.sound(value, place)}
    if namespace is not None:
        refusals.namespace(namespace, namespace_pointer)
    total = refusals.sizes((place, item) for place, item in parts if place in sound)
    if total > policy.max_specification_bytes:
        refusals.add(TooLargeError("the specification", total, policy.max_specification_bytes, pointer=pointer))
    admission: Admission | None = None
    names: set[tuple[str, str]] = set()
    with refusals.rules() as report:
        if labels_pointer in sound:
            _check_own_labels(Field(own, report=report, base=labels_pointer))
        if pointer in sound:
            admission = _check_main(Field(manifest, report=report, base=pointer), namespace, policy)
        for place, item in parts[1:]:
            if place in sound:
                _check_beside(Field(item, report=report, base=place), namespace, policy, names)
    refusals.finish()
    assert admission is not None  # nothing was refused
    return admission


def ruled(found: Field, kinds: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
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


def check_unruled(found: Field, namespace: str | None) -> None:
    """What holds for an object of any kind: an unknown kind doesn't hide a bad name."""
    metadata = found["metadata"]
    check_metadata(metadata, namespace=namespace)
    if metadata["name"].given and not is_dns_subdomain(metadata["name"].text):
        metadata["name"].refuse(SUBDOMAIN_RULE)


def check_frame(found: Field, api_version: str, kind: str, namespace: str | None) -> None:
    """What holds for every object of a kind that has rules, before the rules of the kind itself: its structure and its metadata."""
    check_structure(found, api_version=api_version, kind=kind)
    if not found["metadata"].given:
        found["metadata"].refuse("must be an object with a name")
    check_metadata(found["metadata"], namespace=namespace)


def _check_own_labels(labels: Field) -> None:
    for key, value in labels.items():
        if not isinstance(value.value, str):
            labels[key].refuse("must be a string")
    check_pod_labels(labels)


def _check_main(job: Field, namespace: str | None, policy: Policy) -> Admission | None:
    judged = ruled(job, policy.main_kinds)
    if judged is None:
        check_unruled(job, namespace)
        return None
    check_frame(job, *judged, namespace)
    check_queued_job(job)
    demand = RULES[judged](job, policy)
    return Admission(
        api_version=judged[0],
        kind=judged[1],
        namespace=namespace or "",
        name=job.within("metadata", "name").text,
        demand=demand,
    )


def _check_beside(found: Field, namespace: str | None, policy: Policy, names: set[tuple[str, str]]) -> None:
    judged = ruled(found, policy.supporting_kinds)
    if judged is None:
        check_unruled(found, namespace)
        return
    kind, name = judged[1], found.within("metadata", "name")
    check_frame(found, *judged, namespace)
    RULES[judged](found, policy)
    if (kind, name.text) in names:
        name.refuse(f"must stand only once among the supporting {kind}s")
    names.add((kind, name.text))

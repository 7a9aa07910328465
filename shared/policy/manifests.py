"""The one question of admission of objects that are applied to a cluster directly: the manifests door, templates, retries, dry runs.

It shares every rule with `shared.policy.admission`, which is about jobs of the queue: what is wrong with a Job is told in the same words
whichever way it comes in. Only what takes a job out of the queue's hands (`suspend`, `managedBy`) is no fault here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from shared.errors import ForbiddenError, InvalidError, Problem, TooLargeError
from shared.jobs.fields import DEFAULT_NAMESPACE
from shared.policy.admission import Admission, check_frame, check_unruled, ruled
from shared.policy.fields import Field
from shared.policy.kinds import RULES
from shared.policy.refusals import Refusals
from shared.policy.settings import Policy

Part = tuple[str, Any]
"""An object, and the JSON pointer of its place: of an item in a List that is another one than its number among all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What is said of one object by itself: it is admitted, or refused with its problems."""

    pointer: str
    admission: Admission | None = None
    problems: tuple[Problem, ...] = ()


def check_manifest(
    manifest: Any, *, namespace: str | None, policy: Policy, pointer: str = "/manifest", namespace_pointer: str = "/namespace"
) -> Admission:
    """Admit one object or refuse it with all reasons, as `check_parts` does."""
    return check_parts([(pointer, manifest)], namespace=namespace, policy=policy, namespace_pointer=namespace_pointer)[0]


def check_parts(parts: Sequence[Part], *, namespace: str | None, policy: Policy, namespace_pointer: str = "/namespace") -> list[Admission]:
    """Admit all objects of a request, in order, or refuse the request with all reasons; the objects aren't changed.

    `namespace` is the request's own, which an object without one gets, and an object with another contradicts. Without it each object
    says its own, or means `gco-jobs`.

    Raises:
        InvalidError: all the rules that are broken by any object, with JSON pointers that begin with those given.
        ForbiddenError: namespaces are not the policy's, and nothing else is wrong.
        TooLargeError: an object is larger than the policy allows, and nothing else is wrong.
    """
    refusals = Refusals(policy)
    sound = [(place, manifest) for place, manifest in parts if refusals.sound(manifest, place)]
    refusals.sizes(sound)
    default = DEFAULT_NAMESPACE if namespace is None else namespace
    if namespace is not None or any(_namespace_of(manifest) is None for _, manifest in sound):
        refusals.namespace(default, namespace_pointer)
    found: list[Admission | None] = []
    places: dict[tuple[str, str, str], str] = {}
    with refusals.rules() as report:
        for place, manifest in sound:
            own = _namespace_of(manifest) if namespace is None else None
            if own is not None:
                refusals.namespace(own, f"{place}/metadata/namespace")
            found.append(_admission(Field(manifest, report=report, base=place), own or default, policy, places))
    refusals.finish()
    return [admission for admission in found if admission is not None]


def judge_parts(parts: Iterable[Part], *, namespace: str | None, policy: Policy) -> Iterator[Verdict]:
    """Judge each object for itself, so that what is wrong with one hides nothing of the others, however much that is."""
    places: dict[tuple[str, str, str], str] = {}
    for pointer, manifest in parts:
        try:
            found = check_manifest(manifest, namespace=namespace, policy=policy, pointer=pointer)
        except (InvalidError, ForbiddenError, TooLargeError) as refusal:
            yield Verdict(pointer=pointer, problems=tuple(refusal.problems))
            continue
        first = places.setdefault((found.kind, found.namespace, found.name), pointer)
        if first == pointer:
            yield Verdict(pointer=pointer, admission=found)
        else:
            problem = Problem(pointer=f"{pointer}/metadata/name", value=found.name, rule=_repeated(found.kind, first))
            yield Verdict(pointer=pointer, problems=(problem,))


def _namespace_of(manifest: dict[str, Any]) -> str | None:
    metadata = manifest.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return namespace if isinstance(namespace, str) and namespace else None


def _admission(found: Field, namespace: str, policy: Policy, places: dict[tuple[str, str, str], str]) -> Admission | None:
    judged = ruled(found, policy.manifest_kinds)
    if judged is None:
        check_unruled(found, namespace)
        return None
    api_version, kind = judged
    check_frame(found, api_version, kind, namespace)
    demand = RULES[judged](found, policy)
    name = found.within("metadata", "name")
    first = places.setdefault((kind, namespace, name.text), found.pointer)
    if first != found.pointer and name.text:
        name.refuse(_repeated(kind, first))
    return Admission(api_version=api_version, kind=kind, namespace=namespace, name=name.text, demand=demand)


def _repeated(kind: str, first: str) -> str:
    return f"must stand only once in a request: there is a {kind} of this name at {first}"

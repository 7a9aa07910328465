"""The policy's verdict on each manifest for itself, so that what is wrong with one doesn't hide what is wrong with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.errors import ForbiddenError, InvalidError, Problem, TooLargeError, clean
from shared.identity.callers import Caller
from shared.jobs.fields import DEFAULT_NAMESPACE
from shared.policy import Policy
from shared.policy.admission import Admission
from shared.policy.manifests import check_parts
from workers.api.gco.applying import parts_of
from workers.api.gco.manifest_schemas import ManifestProblem, ManifestVerdict

_TOLD = 10
"""Problems of one manifest that `error` tells in words; `problems` has all."""


def verdicts(policy: Policy, caller: Caller, manifests: Sequence[Mapping[str, Any]], namespace: str | None) -> list[ManifestVerdict]:
    """A verdict on each manifest, the items of a List each. Works the processor; raises InvalidError for too many."""
    places: dict[tuple[str, str, str], str] = {}
    found = []
    for pointer, manifest in parts_of(manifests):
        admitted, problems = _judged(policy, caller, pointer, manifest, namespace)
        if admitted is not None:
            first = places.setdefault((admitted.kind, admitted.namespace, admitted.name), pointer)
            if first != pointer:
                rule = f"must stand only once in a request: there is a {admitted.kind} of this name at {first}"
                problems = [Problem(pointer=f"{pointer}/metadata/name", value=admitted.name, rule=rule)]
        found.append(_verdict(pointer, manifest, namespace, problems))
    return found


def _judged(
    policy: Policy, caller: Caller, pointer: str, manifest: Any, namespace: str | None
) -> tuple[Admission | None, Sequence[Problem]]:
    try:
        admitted = check_parts([(pointer, manifest)], namespace=namespace, policy=policy)[0]
        caller.require_namespace(admitted.namespace)
    except (InvalidError, ForbiddenError, TooLargeError) as refusal:
        return None, refusal.problems or [Problem(pointer=pointer, value=namespace, rule=str(refusal))]
    return admitted, ()


def _verdict(pointer: str, manifest: Any, namespace: str | None, problems: Sequence[Problem]) -> ManifestVerdict:
    document = manifest if isinstance(manifest, dict) else {}
    metadata = document["metadata"] if isinstance(document.get("metadata"), dict) else {}
    return ManifestVerdict(
        manifest_index=int(pointer.split("/")[2]),
        valid=not problems,
        api_version=_text(document.get("apiVersion")),
        kind=_text(document.get("kind")),
        name=_text(metadata.get("name")),
        namespace=_text(metadata.get("namespace")) or namespace or DEFAULT_NAMESPACE,
        error=_error(problems),
        problems=[ManifestProblem(pointer=clean(one.pointer), value=one.told, rule=clean(one.rule)) for one in problems],
    )


def _error(problems: Sequence[Problem]) -> str | None:
    if not problems:
        return None
    lines = [clean(str(problem)) for problem in problems[:_TOLD]]
    more = len(problems) - len(lines)
    return "; ".join([*lines, f"and {more} more"] if more else lines)


def _text(value: object) -> str | None:
    return clean(value[:253]) if isinstance(value, str) else None

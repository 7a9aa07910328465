"""The policy's verdict on each manifest for itself, so that what is wrong with one doesn't hide what is wrong with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.errors import ForbiddenError, Problem, clean
from shared.identity.callers import Caller
from shared.jobs.fields import DEFAULT_NAMESPACE
from shared.policy import Policy
from shared.policy.manifests import Verdict, judge_parts
from workers.api.gco.applying import parts_of
from workers.api.gco.manifest_schemas import ManifestProblem, ManifestVerdict

_TOLD = 10
"""Problems of one manifest that `error` tells in words; `problems` has all."""


def verdicts(policy: Policy, caller: Caller, manifests: Sequence[Mapping[str, Any]], namespace: str | None) -> list[ManifestVerdict]:
    """A verdict on each manifest, the items of a List each. Works the processor; raises InvalidError for too many."""
    parts = parts_of(manifests)
    judged = judge_parts(parts, namespace=namespace, policy=policy)
    return [
        _verdict(one.pointer, manifest, namespace, _own_problems(one, caller)) for (_, manifest), one in zip(parts, judged, strict=True)
    ]


def _own_problems(verdict: Verdict, caller: Caller) -> Sequence[Problem]:
    """The policy's, or else that the namespace isn't the caller's."""
    if verdict.admission is None:
        return verdict.problems
    try:
        caller.require_namespace(verdict.admission.namespace)
    except ForbiddenError as error:
        return [Problem(pointer=verdict.pointer, value=verdict.admission.namespace, rule=str(error))]
    return ()


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

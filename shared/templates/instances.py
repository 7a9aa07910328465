"""What is made of a template: its manifest filled with parameters, under the name that was asked for.

A namespace that the manifest names stands; one that the request names too must be the same. A manifest without one gets the request's.

Parameters of a template are its defaults; a placeholder without one is a required parameter. `name` is always the name of the object.

A number or boolean that stands alone where Kubernetes takes nothing but a string (a label, an argument, the value of an environment
variable) is written there as JSON writes it. Nothing else could be meant, and so one parameter can be a count in one place and an
argument in another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from shared.clusters import names
from shared.clusters.manifests import expanded
from shared.clusters.trees import step
from shared.errors import ForbiddenError, InvalidError, Problem, TooLargeError
from shared.policy.manifests import check_manifest
from shared.policy.settings import Policy
from shared.templates.placeholders import PLACEHOLDER, Filled, fill, places, unclosed

NAME: Final = "name"
"""The parameter that is the name of what is made; whoever asks for it gives it apart."""
MANIFEST: Final = "/manifest"
PARAMETERS: Final = "/parameters"
NAME_RULE: Final = "must be at most 63 of letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
"""Of a template's name: the grammar of a label's value, since what is made of the template carries it as a label."""
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
SAMPLE: Final = "job"
"""The name of what a template is tried with."""
_ROUNDS: Final = 10
"""How often it is asked what takes nothing but a string: a hundred places are told of at a time."""
_NAMED: Final = 100
"""Parameters that are named where another is none of them."""
_INDEX: Final = re.compile(r"/\d+(?=/|$)")
_ONLY_TEXT: Final = "must be a string"
"""What the schemas say of a place that takes nothing else (`shared.policy.schemas`)."""
_ELSEWHERE: Final = {f"{MANIFEST}/metadata/name": "/name"}
"""What stands in the manifest, and comes from the request."""


def is_name(text: str) -> bool:
    """Whether a text can be a template's name."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Instance:
    """A filled manifest, and the values that went into it, defaults included."""

    manifest: dict[str, Any]
    parameters: dict[str, Any]
    origins: Mapping[str, tuple[str, ...]]

    def as_asked(self, problem: Problem) -> Problem:
        """A problem of the filled manifest, told with the field of the request that is to blame."""
        return _as_asked(problem, self.origins)


def instance(
    manifest: Mapping[str, Any],
    defaults: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    name: str,
    namespace: str | None,
    template: str,
    policy: Policy,
) -> Instance:
    """Make an object of a template's content; `template` is the template's name, which it carries as a label.

    Raises:
        InvalidError: required parameters that are missing, unknown ones, values that fit nowhere: all of them, and what the policy
            has against the parts of the manifest that they leave decided.
        TooLargeError: the filled manifest would be larger than an object may be.
    """
    values = {**defaults, **given, NAME: name}
    filled = fill(manifest, values, limit=policy.max_object_bytes)
    made = _placed(filled.manifest, name, template)
    problems = [*_parameter_problems(manifest, defaults, given, name), *filled.problems]
    if not problems and filled.texts:
        _settle(made, filled, namespace, policy)
    elif problems:
        problems.sort(key=lambda problem: problem.pointer)
        raise InvalidError([*problems, *_decided(_settle(made, filled, namespace, policy), filled)])
    if [pointer for pointer, _ in expanded(made, MANIFEST)] != [MANIFEST]:
        raise InvalidError([Problem(pointer=f"{MANIFEST}/kind", value=made["kind"], rule="must be the kind of one object, not of a list")])
    return Instance(manifest=made, parameters=values, origins=filled.origins)


def all_problems(
    manifest: Mapping[str, Any],
    defaults: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    name: str,
    namespace: str | None,
    template: str,
    policy: Policy,
) -> tuple[Problem, ...]:
    """What `instance` and then the policy have against a request of which some other field is wrong."""
    try:
        made = instance(manifest, defaults, given, name=name, namespace=namespace, template=template, policy=policy)
    except (InvalidError, TooLargeError) as refusal:
        return tuple(refusal.problems)
    return tuple(map(made.as_asked, _policy_problems(made.manifest, namespace, policy)))


def check_template(name: object, manifest: Mapping[str, Any], defaults: Mapping[str, Any], *, policy: Policy) -> list[Problem]:
    """What is wrong with a template: its name, placeholders that are begun and not closed, values that fit nowhere, and what the policy
    has against its manifest with its defaults.

    Where a required parameter stands nothing is known yet. What the policy says of those places, of what is beneath them, and of
    what they are a part of (a sum, a rule about siblings) is left out; it is said when the template is used. But `apiVersion` and `kind`
    must stand in every template, or keys that may become them. A template whose parameters all have defaults is checked as a whole.

    Raises TooLargeError where that is all that is wrong: its manifest, or what its defaults make of it, is larger than an object may be.
    """
    problems = [
        Problem(pointer=f"{MANIFEST}{place.pointer}", value=None, rule=f"must close the placeholder that it begins: {{{{{place.name}}}}}")
        for place in unclosed(manifest)
    ]
    if isinstance(name, str) and not is_name(name):
        problems.append(Problem(pointer="/name", value=name, rule=NAME_RULE))
    used = {place.name for place in places(manifest)}
    for unused in [one for one in defaults if one not in used and one != NAME]:
        rule = f"must be used: the manifest has no placeholder {{{{{unused}}}}}"
        problems.append(Problem(pointer=PARAMETERS + step(unused), value=defaults[unused], rule=rule))
    try:
        filled = fill(manifest, {**defaults, NAME: SAMPLE}, limit=policy.max_object_bytes)
    except TooLargeError as too_large:
        if not problems:
            raise
        return [*problems, *too_large.problems]
    made = _placed(filled.manifest, SAMPLE, None)
    namespace = None if _names_a_namespace(made) else next(iter(policy.allowed_namespaces), "")
    found = _settle(made, filled, namespace, policy)
    decided = _decided(found, filled)
    told = {problem.pointer for problem in decided}
    all_found = [*problems, *filled.problems, *decided, *(one for one in _without_kind(filled.manifest) if one.pointer not in told)]
    _raise_if_only_too_large(all_found, made, namespace, policy)
    return all_found


def _raise_if_only_too_large(found: list[Problem], manifest: dict[str, Any], namespace: str | None, policy: Policy) -> None:
    if len(found) != 1:
        return
    try:
        check_manifest(manifest, namespace=namespace, policy=policy, pointer=MANIFEST)
    except TooLargeError as too_large:
        if list(too_large.problems) == found:
            raise
    except (InvalidError, ForbiddenError):
        return


def _as_asked(problem: Problem, origins: Mapping[str, tuple[str, ...]]) -> Problem:
    if problem.pointer in _ELSEWHERE:
        return replace(problem, pointer=_ELSEWHERE[problem.pointer])
    blamed = list(dict.fromkeys(name for place in _beginnings(problem.pointer) for name in origins.get(place, ())))
    if not blamed:
        return problem
    which = " and ".join(f"'{name}'" for name in blamed)
    return replace(problem, rule=f"{problem.rule} (from the parameter{'s' if len(blamed) > 1 else ''} {which})")


def _without_kind(manifest: Mapping[str, Any]) -> list[Problem]:
    """What a manifest must say of itself, and doesn't, whatever its open keys become."""
    missing = [name for name in ("apiVersion", "kind") if name not in manifest]
    may_become_one = [key for key, value in manifest.items() if isinstance(value, str) and PLACEHOLDER.search(key)]
    if len(missing) <= len(may_become_one):
        return []
    return [Problem(pointer=f"{MANIFEST}/{name}", value=None, rule="must be given: no placeholder stands in its place") for name in missing]


def _names_a_namespace(manifest: dict[str, Any]) -> bool:
    metadata = manifest.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("namespace"))


def _placed(manifest: dict[str, Any], name: str, template: str | None) -> dict[str, Any]:
    """The manifest under its name; what is no object where one must be is left as it is, for the policy to refuse."""
    metadata = {} if manifest.get("metadata") is None else manifest["metadata"]
    if not isinstance(metadata, dict):
        return manifest
    placed = {**metadata, "name": name}
    placed.pop("generateName", None)
    labels = {} if metadata.get("labels") is None else metadata["labels"]
    if template is not None and isinstance(labels, dict):
        placed["labels"] = {**labels, names.TEMPLATE_LABEL: template}
    return {**manifest, "metadata": placed}


def _parameter_problems(manifest: Mapping[str, Any], defaults: Mapping[str, Any], given: Mapping[str, Any], name: str) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for place in places(manifest):
        first.setdefault(place.name, place.pointer)
    for wanted, pointer in first.items():
        if wanted not in defaults and wanted not in given and wanted != NAME:
            rule = f"must be given: the template has no default for it, and needs it at {MANIFEST}{pointer}"
            yield Problem(pointer=PARAMETERS + step(wanted), value=None, rule=rule)
    known = (first.keys() | defaults.keys()) - {NAME}
    named = ", ".join(sorted(known)[:_NAMED]) + (f" and {len(known) - _NAMED} others" if len(known) > _NAMED else "")
    for one, value in given.items():
        if one == NAME and value != name:
            rule = f"must be left out, or be the name of what is made, '{name}'"
            yield Problem(pointer=PARAMETERS + step(NAME), value=value, rule=rule)
        elif one != NAME and one not in known:
            rule = f"must be a parameter of the template, which has {named or 'none'}"
            yield Problem(pointer=PARAMETERS + step(one), value=value, rule=rule)


def _settle(made: dict[str, Any], filled: Filled, namespace: str | None, policy: Policy) -> tuple[Problem, ...]:
    """Write as text what stands where only a string is taken; return what else the policy has against the manifest."""
    problems = _policy_problems(made, namespace, policy)
    for _ in range(_ROUNDS):
        wrong = {_any_index(one.pointer) for one in problems if one.rule == _ONLY_TEXT and one.pointer in filled.texts}
        if not wrong:
            break
        for pointer, text in filled.texts.items():
            if _any_index(pointer) in wrong:
                _write(made, pointer.removeprefix(MANIFEST), text)
        problems = _policy_problems(made, namespace, policy)
    return problems


def _any_index(pointer: str) -> str:
    """The pointer for all elements of its arrays, which have the same type."""
    return _INDEX.sub("/*", pointer)


def _policy_problems(manifest: dict[str, Any], namespace: str | None, policy: Policy) -> tuple[Problem, ...]:
    try:
        check_manifest(manifest, namespace=namespace, policy=policy, pointer=MANIFEST)
    except (InvalidError, ForbiddenError, TooLargeError) as refusal:
        return tuple(refusal.problems)
    return ()


def _decided(problems: Iterable[Problem], filled: Filled) -> list[Problem]:
    """The problems that don't hang on what is open, as they were asked for: neither there, nor beneath, nor about what it is a part of."""
    around = {beginning for place in filled.open for beginning in _beginnings(place)}
    sure = [one for one in problems if one.pointer not in around and not any(way in filled.open for way in _beginnings(one.pointer))]
    return [_as_asked(one, filled.origins) for one in sure]


def _beginnings(pointer: str) -> Iterator[str]:
    """The pointer, and those of all that it is within."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]


def _write(document: Any, pointer: str, value: str) -> None:
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for part in way:
        document = document[int(part)] if isinstance(document, list) else document[part]
    document[int(last) if isinstance(document, list) else last] = value

"""What a decoder makes of a body: wrong types are refused, unknown fields are refused or dropped, as `fieldValidation` says.

The schemas are those that the fleet's own admission checks with. What is missing is left to validation, which answers it with a 422.
Everything behind this may rely on the types of what it finds.
"""

from __future__ import annotations

from typing import Any

from jsonpointer import resolve_pointer

from shared.errors import InvalidError, Problem
from shared.policy.fields import Field, Report
from shared.policy.schemas import check_structure
from workers.local.cluster.answers import RefusedError, bad_request
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object, thaw

_MISSING = object()


def decoded(kind: Kind, obj: Object, *, strict: bool) -> Object:
    """The object as it is stored. Raises a 400 for a wrong type, and where it is strict for an unknown field."""
    problems = [problem for problem in _problems(kind, obj) if resolve_pointer(obj, problem.pointer, _MISSING) is not _MISSING]
    faults = [_told(problem) for problem in problems if strict or not _is_unknown(problem)]
    if faults:
        what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{what}: {'strict decoding error: ' if strict else ''}{', '.join(faults)}")
    if not problems:
        return obj
    known = thaw(obj)
    for problem in problems:
        _drop(known, problem.pointer)
    # A report ends with its hundredth problem, so there may be more.
    return decoded(kind, known, strict=strict)


def check_declared(kind: Kind, obj: Object, what: str) -> None:
    """Refuse a field that an applied configuration has and the schema doesn't. `what` is the namespace and name.

    A real server answers this with a 500 and no reason (https://github.com/kubernetes/kubernetes/issues/122480).
    """
    unknown = next((problem for problem in _problems(kind, obj) if _is_unknown(problem)), None)
    if unknown is not None:
        group, _, version = kind.api_version.rpartition("/")
        place = "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in unknown.pointer.split("/")[1:])
        about = f"({what}; {group}/{version}, Kind={kind.kind})"
        raise RefusedError(500, "", f"failed to create typed patch object {about}: {place}: field not declared in schema")


def without_nulls(value: Any) -> Any:
    """A document without the fields that are null, which say the same as absent ones. Raises a 400 for a null in a list."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        if None in value:
            raise bad_request("a list holds a null")
        return [without_nulls(child) for child in value]
    return value


def _problems(kind: Kind, obj: Object) -> tuple[Problem, ...]:
    report = Report()
    try:
        check_structure(Field(obj, report=report, base=""), api_version=kind.api_version, kind=kind.kind)
        report.finish()
    except FileNotFoundError:
        # A further kind that has no published schema.
        return ()
    except InvalidError as error:
        return error.problems
    return ()


def _is_unknown(problem: Problem) -> bool:
    return problem.rule.startswith("must be a field of")


def _told(problem: Problem) -> str:
    field = problem.pointer.strip("/").replace("/", ".")
    return f'unknown field "{field}"' if _is_unknown(problem) else f'"{field}" {problem.rule}'


def _drop(document: Any, pointer: str) -> None:
    parent, _, last = pointer.rpartition("/")
    found = resolve_pointer(document, parent, None)
    if isinstance(found, dict):
        found.pop(last.replace("~1", "/").replace("~0", "~"), None)

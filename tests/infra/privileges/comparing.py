"""Holds what was asked for against policies, both ways: what was asked is granted, and what is granted was asked for.

A policy is a document as IAM has it, be it rendered from `infra.roles` or read from a template. Whether a statement allows something is
decided by the emulator's own evaluator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

from tests.infra.emulator.record import Asked

Policy = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, order=True)
class Right:
    """A part of a statement that could be taken away by itself: one action on one resource, or one value of a condition on it."""

    role: str
    action: str
    resource: str
    condition: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"{self.role}: {self.action} on {self.resource}" + (f" where {self.condition} is {self.value}" if self.condition else "")


def missing(asked: Iterable[Asked], policies: Mapping[str, Policy]) -> list[str]:
    """What was asked for and isn't granted, readable and in order."""
    parsed = {role: parse_policy_document(policy) for role, policy in policies.items()}
    return sorted({_told(one) for one in asked if one.caller in parsed and not _allowed(one, parsed[one.caller])})


def unused(asked: Iterable[Asked], policies: Mapping[str, Policy], *, alike: Sequence[Mapping[str, str]] = ()) -> list[Right]:
    """What is granted and was never asked for.

    `alike` are groups of texts of which one stands for all, such as the regions: what is used of one region's queue counts for the others'.
    """
    by_caller: dict[str, list[Asked]] = {}
    for one in asked:
        by_caller.setdefault(one.caller, []).append(one)
    rights = {right for role, policy in policies.items() for right in _rights(role, policy)}
    used = {right for right in rights if any(_uses(one, right) for one in by_caller.get(right.role, ()))}
    stood_for = {_general(right, alike) for right in used}
    return sorted(right for right in rights if _general(right, alike) not in stood_for)


def _allowed(one: Asked, statements: Any) -> bool:
    context = {key.lower(): list(values) if len(values) > 1 else values[0] for key, values in one.keys}
    asked = EvalContext(
        principal_arn="",
        principal_type="AssumedRole",
        principal_account="",
        action=one.action,
        resource_arn=one.resource,
        region=str(context.get("aws:requestedregion", "")),
        service_context=context,
    )
    return evaluate(asked, [statements]).decision == "Allow"


def _rights(role: str, policy: Policy) -> Iterator[Right]:
    for statement in policy["Statement"]:
        for action in _listed(statement["Action"]):
            for resource in _listed(statement["Resource"]):
                yield Right(role=role, action=action, resource=resource)
                for keys in statement.get("Condition", {}).values():
                    for key, values in keys.items():
                        yield from (
                            Right(role=role, action=statement_actions(statement), resource="its resources", condition=key, value=value)
                            for value in _listed(values)
                        )


def statement_actions(statement: Mapping[str, Any]) -> str:
    """The actions of a statement as one text: a condition's value is used when one of them was asked for with it."""
    return " ".join(_listed(statement["Action"]))


def _uses(one: Asked, right: Right) -> bool:
    if one.action not in right.action.split():
        return False
    if not right.condition:
        return fnmatchcase(one.resource, right.resource)
    return any(fnmatchcase(value, right.value) for key, values in one.keys if key == right.condition for value in values)


def _general(right: Right, alike: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    parts = [right.role, right.action, right.resource, right.condition, right.value]
    for group in alike:
        for text, name in group.items():
            parts = [part.replace(text, name) for part in parts]
    return tuple(parts)


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _told(one: Asked) -> str:
    keys = "; ".join(f"{key} {', '.join(values)}" for key, values in one.keys)
    return f"{one.caller}: {one.action} on {one.resource}" + (f" where {keys}" if keys else "")

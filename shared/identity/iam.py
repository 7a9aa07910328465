"""Callers that API Gateway has authenticated, read from the event that it calls Lambda with, and from nothing that a client can write.

Which methods and paths a principal may call is decided by IAM policies on `execute-api`, before Lambda is called; so such a caller has
every right in every namespace, unless the context of a Lambda authorizer narrows it: `rights` and `namespaces`, separated by commas.

Whoever may invoke the function itself (`lambda:InvokeFunction`) can write any event, and so be anybody.

Source of the events' shapes: Amazon API Gateway Developer Guide, "Input format of a Lambda function for proxy integration" (REST),
"AWS Lambda proxy integrations for HTTP APIs" (payload format 2.0; function URLs have the same).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.identity.callers import Caller, Right
from shared.identity.sources import Presented, UnknownCallerError

_MAX_NAME: Final = 1024
_ALL: Final = frozenset(Right)


class IamSource:
    """Knows callers by the ARN, or the authorizer's principal, in the event of API Gateway."""

    expects = "a request signed with AWS credentials (Signature Version 4), through API Gateway"

    async def identify(self, presented: Presented) -> Caller | None:
        """The caller; None where this is not Lambda, or API Gateway has authenticated nobody. Raises UnknownCallerError."""
        if presented.aws_event is None:
            return None
        context = _object(presented.aws_event.get("requestContext"))
        authorizer = _object(context.get("authorizer"))
        granted = _object(authorizer.get("lambda")) or authorizer
        name = _name(context, authorizer)
        if name is None:
            return None
        if len(name) > _MAX_NAME or not name.isprintable():
            raise UnknownCallerError("the caller's name in the event of API Gateway is no ARN", wrong=True)
        return Caller(name=name, rights=_rights(granted), namespaces=_listed(granted, "namespaces"), principal=_principal(name))


def _name(context: Mapping[str, Any], authorizer: Mapping[str, Any]) -> str | None:
    """The ARN of IAM (REST, then HTTP API), or the principal that a Lambda authorizer of a REST API has named."""
    for found in (_object(context.get("identity")).get("userArn"), _object(authorizer.get("iam")).get("userArn")):
        if isinstance(found, str) and found:
            return found
    principal = authorizer.get("principalId") or _object(authorizer.get("lambda")).get("principalId")
    return f"principal:{principal}" if isinstance(principal, str) and principal else None


def _principal(arn: str) -> str:
    """An assumed role without the name of its session (`arn:aws:sts::<account>:assumed-role/<role>/<session>`); sessions come and go."""
    return arn.rpartition("/")[0] if ":assumed-role/" in arn else arn


def _rights(granted: Mapping[str, Any]) -> frozenset[Right]:
    listed = _listed(granted, "rights")
    if listed is None:
        return _ALL
    unknown = listed - set(Right)
    if unknown:
        raise UnknownCallerError(f"the authorizer grants a right that there isn't: {', '.join(sorted(unknown))}", wrong=True)
    return frozenset(map(Right, listed))


def _listed(granted: Mapping[str, Any], name: str) -> frozenset[str] | None:
    """The parts of a list in the authorizer's context; None where it says nothing of it."""
    found = granted.get(name)
    if found is None:
        return None
    if not isinstance(found, str):
        raise UnknownCallerError(f"the authorizer's '{name}' must be text, separated by commas", wrong=True)
    return frozenset(part.strip() for part in found.split(",") if part.strip())


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

"""Callers whose token API Gateway has checked: signature, issuer, audience, time (the JWT authorizer of an HTTP API).

What such a caller may do stands in his token, and nowhere else: in its scopes `gpufleet/read`, `gpufleet/submit`, `gpufleet/admin` (an
OAuth resource server `gpufleet`, as Amazon Cognito writes them), and where he may do it in the claim `gpufleet_namespaces`, separated by
commas. A token without such a scope may do nothing; one without that claim may do it in all namespaces.

Source of the event's shape: Amazon API Gateway Developer Guide, "Control access to HTTP APIs with JWT authorizers": claims are texts, and
those that are lists come as `[a b]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.identity.callers import Caller, Right
from shared.identity.sources import Presented, UnknownCallerError

_SERVER: Final = "gpufleet/"
_NAMESPACES: Final = "gpufleet_namespaces"
_MAX_NAME: Final = 1024


class TokenSource:
    """Knows callers by the claims in the event of API Gateway."""

    expects = "a token of the API's issuer (Authorization: Bearer), through API Gateway"

    async def identify(self, presented: Presented) -> Caller | None:
        """The caller; None where this is not Lambda, or API Gateway has looked at no token. Raises UnknownCallerError."""
        claims = _claims(presented.aws_event)
        if claims is None:
            return None
        name = f"token:{claims.get('iss', '')}#{claims.get('sub', '')}"
        if not claims.get("sub") or len(name) > _MAX_NAME or not name.isprintable():
            raise UnknownCallerError("the token says of nobody whom it is for (the claim 'sub')", wrong=True)
        return Caller(name=name, rights=_rights(claims), namespaces=_namespaces(claims))


def _claims(event: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    found: Any = event
    for step in ("requestContext", "authorizer", "jwt", "claims"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _rights(claims: Mapping[str, Any]) -> frozenset[Right]:
    """The rights that the scopes name (RFC 8693, section 4.2: `scope`; other issuers: `scp`). Others' scopes are none of ours."""
    scopes = {scope for name in ("scope", "scp") for scope in _words(claims.get(name))}
    return frozenset(right for right in Right if f"{_SERVER}{right}" in scopes)


def _namespaces(claims: Mapping[str, Any]) -> frozenset[str] | None:
    return None if _NAMESPACES not in claims else frozenset(_words(claims[_NAMESPACES]))


def _words(value: Any) -> list[str]:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    return text.removeprefix("[").removesuffix("]").replace(",", " ").split()

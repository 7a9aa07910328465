"""Where identities come from: one port, and how the sources of an installation are asked one after the other.

A source looks at what a request carries and knows its own kind of credentials by their form. Bearer keys and IAM are such sources; OpenID
Connect can be another, beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from shared.errors import FleetError
from shared.identity.callers import Caller


@dataclass(frozen=True, kw_only=True, slots=True)
class Presented:
    """What a request carries that can tell who sends it.

    `authorization` is the value of that header. `aws_event` is the event that AWS Lambda was called with; None anywhere else, since no
    client can write one.
    """

    authorization: str | None = None
    aws_event: Mapping[str, Any] | None = None

    @property
    def bearer(self) -> str | None:
        """The bearer token in the header (RFC 6750, section 2.1); None where there is none, or another scheme."""
        scheme, _, token = (self.authorization or "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else None


class UnknownCallerError(FleetError):
    """Nobody is known by what a request carries. `wrong` tells that it carries credentials, which don't hold, rather than none."""

    def __init__(self, message: str, *, wrong: bool = False) -> None:
        self.wrong = wrong
        super().__init__(message)


class IdentitySource(Protocol):
    """Knows callers by one kind of credentials."""

    @property
    def expects(self) -> str:
        """What a request must carry for this source, as told to one that carries nothing."""
        ...

    async def identify(self, presented: Presented) -> Caller | None:
        """The caller; None where the request carries no credentials of this kind.

        Raises UnknownCallerError for credentials of this kind that don't hold, UnavailableError where that can't be told now.
        """
        ...


class Authentication:
    """The sources of an installation, asked in their order."""

    def __init__(self, sources: Sequence[IdentitySource]) -> None:
        self._sources = tuple(sources)

    async def caller(self, presented: Presented) -> Caller:
        """Whoever sends a request. Raises UnknownCallerError, UnavailableError."""
        for source in self._sources:
            found = await source.identify(presented)
            if found is not None:
                return found
        expected = " or ".join(source.expects for source in self._sources)
        if presented.authorization is not None:
            raise UnknownCallerError(f"the credentials are of no kind that is known here; expected is {expected}", wrong=True)
        raise UnknownCallerError(f"the request carries no credentials; expected is {expected}")

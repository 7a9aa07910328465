"""A caller: a name for the record, rights, and the namespaces in which they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shared.errors import ForbiddenError, cut


class Right(StrEnum):
    """What a caller may do. None contains another: who may submit and look has both."""

    READ = "read"
    """See jobs, objects, logs and templates of the caller's namespaces; check manifests."""
    SUBMIT = "submit"
    """Make, change and end jobs, objects, templates and webhooks there."""
    ADMIN = "admin"
    """What concerns everybody: keys, dead letters, rejections, dispatch passes, reports."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who asks. `name` is what `submitted_by` and events record: an ARN, `key:<name>`, or `local`. `namespaces` None means all.

    `principal` is who that is for longer than a session, where the name tells the session too (an assumed role).
    """

    name: str
    rights: frozenset[Right] = field(default_factory=frozenset)
    namespaces: frozenset[str] | None = None
    principal: str | None = None

    @property
    def scope(self) -> str:
        """What keeps the idempotency keys of callers apart: `api` for the local administrator, one of their own for all others."""
        return "api" if self.name == LOCAL.name else f"api:{self.principal or self.name}"

    def require(self, right: Right) -> None:
        """Raises ForbiddenError where the caller lacks a right."""
        if right not in self.rights:
            has = ", ".join(sorted(self.rights)) or "nothing"
            raise ForbiddenError(f"{self.name} may not do this: it takes the right '{right}', and the caller has {has}")

    def require_namespace(self, namespace: str) -> None:
        """Raises ForbiddenError for a namespace that isn't the caller's."""
        if not self.sees(namespace):
            raise ForbiddenError(
                f"Namespace '{cut(namespace)}' not allowed for {self.name}. Allowed namespaces: {sorted(self.namespaces or ())}"
            )

    def require_all_namespaces(self, what: str) -> None:
        """Raises ForbiddenError where the caller is bound to some namespaces and asks for what concerns all of them."""
        if self.namespaces is not None:
            raise ForbiddenError(
                f"{self.name} may not do this: {what} concerns all namespaces, and the caller has {sorted(self.namespaces)}"
            )

    def sees(self, namespace: str) -> bool:
        """Whether a namespace is the caller's."""
        return self.namespaces is None or namespace in self.namespaces

    def within(self, namespaces: Iterable[str]) -> tuple[str, ...]:
        """Those of some namespaces that are the caller's, in their order."""
        return tuple(namespace for namespace in namespaces if self.sees(namespace))


LOCAL: Final = Caller(name="local", rights=frozenset(Right))
"""Whoever reaches a server that listens on the loopback interface only: the administrator of this machine."""

"""What a route asks for by type: the services, and a caller who has a right. A route without one of the latter is open to everybody.

All are coroutines, though none waits for anything: a plain function would be called in a thread, which costs more than it does.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request

from shared.identity.callers import Caller, Right
from workers.api.core import Core


async def _core(request: Request) -> Core:
    core: Core = request.app.state.core
    return core


CoreOf = Annotated[Core, Depends(_core)]
"""The services of this app."""


def _with(right: Right) -> Callable[[Request], Coroutine[Any, Any, Caller]]:
    async def caller(request: Request) -> Caller:
        found: Caller = request.state.caller
        found.require(right)
        return found

    return caller


_reader, _submitter, _administrator = map(_with, Right)

Reader = Annotated[Caller, Depends(_reader)]
"""A caller who may look. What belongs to a namespace is for the route to ask: `caller.require_namespace`."""
Submitter = Annotated[Caller, Depends(_submitter)]
"""A caller who may make, change and end things."""
Administrator = Annotated[Caller, Depends(_administrator)]
"""A caller who may do what concerns everybody."""

READS: Any = Depends(_reader)
SUBMITS: Any = Depends(_submitter)
ADMINISTERS: Any = Depends(_administrator)
"""The same, for the `dependencies` of a route that has no use for the caller himself."""

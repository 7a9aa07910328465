"""The first key of an installation: without it nobody could make one, and whoever makes one must have one."""

from __future__ import annotations

from collections.abc import Callable

from shared.clock import Clock
from shared.identity.callers import Right
from shared.identity.keys import ApiKey, new_key
from shared.store.api_keys import ApiKeys

ADMINISTRATOR = "admin"
"""Its name."""


async def has_administrator(keys: ApiKeys, clock: Clock) -> bool:
    """Whether somebody has a key that makes others. Raises UnavailableError."""
    now = clock.now()
    return any(key.administers(now) for key in await keys.all())


async def make_first_key(keys: ApiKeys, clock: Clock, *, by: str, keep: Callable[[str], None]) -> bool:
    """Make an administrator's key unless somebody has one; whether it was made.

    `keep` gets its text before it is of any use, so that nobody dies in between with the only copy; what is kept and was never written to
    the table is of no use to anybody. Raises ConflictError where a key that doesn't administer has its name, UnavailableError.
    """
    if await has_administrator(keys, clock):
        return False
    now = clock.now()
    key_id, text, digest = new_key()
    keep(text)
    key = ApiKey(id=key_id, name=ADMINISTRATOR, rights=frozenset(Right), digest=digest, created_at=now, created_by=by)
    await keys.put(key)
    return True

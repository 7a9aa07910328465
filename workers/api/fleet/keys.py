"""Keys of callers: made, listed, revoked. Nobody makes a key that may more than he may himself."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import structlog
from fastapi import APIRouter, Path

from shared.errors import ForbiddenError, InvalidError, NotFoundError, Problem
from shared.identity.callers import Caller, Right
from shared.identity.keys import ApiKey, new_key
from workers.api.bodies import StrictRoute
from workers.api.core import Core
from workers.api.dependencies import Administrator, CoreOf
from workers.api.errors import answers
from workers.api.fleet.schemas import KeyAnswer, KeyMadeAnswer, KeyRequest, KeysAnswer

log = structlog.get_logger()

router = APIRouter(prefix="/keys", tags=["Fleet: keys"], route_class=StrictRoute)


@router.post("", status_code=201, responses=answers(401, 403, 409, 413, 422, 429, 503))
async def create_key(body: KeyRequest, core: CoreOf, caller: Administrator) -> KeyMadeAnswer:
    """Make a key. Its text is in this answer and nowhere else, ever."""
    _check(core, caller, body)
    now = core.clock.now()
    key_id, text, digest = new_key()
    key = ApiKey(
        id=key_id,
        name=body.name,
        rights=frozenset(body.rights),
        namespaces=frozenset(body.namespaces) if body.namespaces is not None else None,
        digest=digest,
        created_at=now,
        created_by=caller.name,
        expires_at=now + timedelta(seconds=body.expires_in_seconds) if body.expires_in_seconds is not None else None,
    )
    await core.api_keys.put(key)
    log.info("key made", key=key.id, name=key.name, by=caller.name)
    return KeyMadeAnswer(key=text, **_told(key).model_dump())


@router.get("", responses=answers(401, 403, 422, 429, 503))
async def list_keys(core: CoreOf, caller: Administrator) -> KeysAnswer:
    """All keys by name, expired ones too; for a caller who is bound to namespaces, those that are bound to no others."""
    return KeysAnswer(keys=[_told(key) for key in await core.api_keys.all() if _within(caller, key)])


@router.delete("/{name}", responses=answers(401, 403, 404, 409, 422, 429, 503))
async def revoke_key(name: Annotated[str, Path(description="The key's name or id.")], core: CoreOf, caller: Administrator) -> KeyAnswer:
    """Revoke a key, by its id or its name. Processes that know it go on taking it for a minute at most, also for logs that are followed.

    Where callers are known by keys alone, the last one that may make every other key can't be revoked.
    """
    found = await core.api_keys.find(name)
    if not _within(caller, found):
        raise NotFoundError("Key", name)
    if set(core.settings.identity) == {"keys"}:
        await core.api_keys.remove_but_the_last(found, now=core.clock.now())
    else:
        await core.api_keys.remove(found)
    log.info("key revoked", key=found.id, name=found.name, by=caller.name)
    return _told(found)


def _check(core: Core, caller: Caller, body: KeyRequest) -> None:
    """Raises InvalidError for namespaces that the policy doesn't allow, ForbiddenError for more than the caller has."""
    allowed = core.policy.allowed_namespaces
    rule = f"must be an allowed namespace: {', '.join(allowed)}"
    wrong = [(place, one) for place, one in enumerate(body.namespaces or ()) if one not in allowed]
    if wrong:
        raise InvalidError(Problem(pointer=f"/namespaces/{place}", value=one, rule=rule) for place, one in wrong)
    for right in body.rights:
        if right not in caller.rights:
            raise ForbiddenError(f"{caller.name} can't make a key with the right '{right}', which it has not itself")
    if body.namespaces is None:
        caller.require_all_namespaces("a key without namespaces")
    for namespace in body.namespaces or ():
        caller.require_namespace(namespace)


def _within(caller: Caller, key: ApiKey) -> bool:
    return caller.namespaces is None or (key.namespaces is not None and key.namespaces <= caller.namespaces)


def _told(key: ApiKey) -> KeyAnswer:
    return KeyAnswer(
        id=key.id,
        name=key.name,
        rights=[right for right in Right if right in key.rights],
        namespaces=sorted(key.namespaces) if key.namespaces is not None else None,
        created_at=key.created_at,
        created_by=key.created_by,
        expires_at=key.expires_at,
    )

"""Jobs that are created directly. A Job runs once and can't be changed, so it is created and never patched; one of the same name that has
finished gives way first, by its UID.

A create is a conflict with whatever has the name, so of two requests that replace the same Job at the same time one comes to have it, and
none runs twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from itertools import chain, repeat
from typing import Any, Final

from shared.clusters import names
from shared.clusters.api import KubernetesApi
from shared.clusters.errors import NOTHING_DONE, MissingError, RejectedError, TakenError
from shared.clusters.observed import Document
from shared.clusters.standing import Target, insist, look, objection
from shared.errors import ConflictError, UnavailableError

GONE_SECONDS: Final = 20.0
"""How long a finished Job may take to go, with its pods. They have ended, so only finalizers can hold them."""
_LOOKS: Final = (0.05, 0.1, 0.2, 0.4)
_LAST_LOOK: Final = 1.0
_PROBE_NAME: Final = 63 - 7
"""Characters of a name that are left of the tail by which a dry run's name differs."""


async def create_job(api: KubernetesApi, target: Target, *, query: Mapping[str, str], until: float) -> dict[str, Any]:
    """Create a Job, once, whatever becomes of the answers.

    Raises ConflictError, ApiError, UnavailableError (whether it was made is open).
    """
    mark = secrets.token_hex(8)
    annotations = {**(target.document["metadata"].get("annotations") or {}), names.SUBMISSION: mark}
    document = target.annotated(annotations=annotations)

    def ours(found: Document | None) -> bool:
        return found is not None and (found["metadata"].get("annotations") or {}).get(names.SUBMISSION) == mark

    async def create() -> dict[str, Any]:
        try:
            return await api.request("POST", target.kind.path(target.namespace), query=query, body=document)
        except TakenError as taken:
            found = await look(api, target)
            if found is None:
                # It went in between; or the 409 was of something else, such as two writers of one quota.
                raise UnavailableError(str(taken)) from taken
            if ours(found):
                return found
            raise ConflictError(objection(target, found) or f"{target} was created by somebody else at the same time") from taken
        except UnavailableError as error:
            found = None if isinstance(error, NOTHING_DONE) else await _look_up(api, target)
            if found is None or not ours(found):
                raise
            return found

    return await insist(create, until=until)


async def probe_replacement(api: KubernetesApi, target: Target, *, query: Mapping[str, str], until: float) -> None:
    """Dry-run a Job whose name is still taken by the one that it is to replace, under another name. Raises ApiError, UnavailableError."""
    probe = f"{target.name[:_PROBE_NAME]}-{secrets.token_hex(3)}"
    document = target.annotated(name=probe)

    async def create() -> None:
        await api.request("POST", target.kind.path(target.namespace), query=query, body=document)

    try:
        await insist(create, until=until)
    except RejectedError as rejected:
        raise RejectedError(str(rejected).replace(probe, target.name), code=rejected.code, reason=rejected.reason) from None


async def remove_finished(api: KubernetesApi, target: Target, uid: str) -> None:
    """Delete a Job that has finished, by its UID, and wait until nothing of it is left.

    In the foreground: when the name is free the pods are gone too, so none of them is taken for one of the new Job's.

    Raises ConflictError where it is still there after 20 s, ApiError, UnavailableError.
    """
    until = asyncio.get_running_loop().time() + GONE_SECONDS
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "preconditions": {"uid": uid}}

    async def delete() -> None:
        try:
            await api.request("DELETE", target.path, body=options)
        except (MissingError, TakenError):
            return  # gone, or it has another UID by now; if somebody only wrote at the same time, the look below tells

    await insist(delete, until=until)
    for pause in chain(_LOOKS, repeat(_LAST_LOOK)):
        found = await insist(lambda: look(api, target), until=until)
        if found is None or found["metadata"]["uid"] != uid:
            return
        if found["metadata"].get("deletionTimestamp") is None:
            await insist(delete, until=until)
        if asyncio.get_running_loop().time() + pause >= until:
            break
        await asyncio.sleep(pause)
    raise UnavailableError(
        f"{target} (UID {uid}) is still being deleted, and nothing stands in its place yet: submit again when it is gone"
    )


async def _look_up(api: KubernetesApi, target: Target) -> dict[str, Any] | None:
    """What stands under a name after an answer that left it open; None also where that can't be told either."""
    try:
        return await look(api, target)
    except UnavailableError:
        return None

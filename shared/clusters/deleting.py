"""Deleting a Job, or another object, that somebody names, by the UID that he means. Its pods follow in the background."""

from __future__ import annotations

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import MissingError, TakenError
from shared.clusters.kinds import JOB, Kind
from shared.errors import ConflictError


async def delete_by_uid(api: KubernetesApi, namespace: str, name: str, uid: str, *, kind: Kind = JOB) -> bool:
    """Delete the Job (or the object of another kind) of that UID, and none else of its name. False where it is gone already.

    `propagationPolicy` must be said: the API server's default for Jobs leaves their pods behind.

    Raises:
        ConflictError: the name has another UID by now.
    """
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": uid}}
    try:
        await api.request("DELETE", kind.path(namespace, name), body=options)
    except MissingError:
        return False
    except TakenError:
        raise ConflictError(f"{kind.kind} '{name}' changed before its UID-preconditioned delete") from None
    return True

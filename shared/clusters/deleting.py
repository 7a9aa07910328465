"""Deleting a Job, or another object, that somebody names, by the UID that he means. Its pods follow in the background."""

from __future__ import annotations

from typing import Final

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import MissingError, TakenError
from shared.clusters.job_documents import read_job
from shared.clusters.kinds import JOB, Kind
from shared.clusters.observed import Document
from shared.errors import ConflictError, NotFoundError

_TRIES: Final = 5


async def delete_by_uid(api: KubernetesApi, namespace: str, name: str, uid: str, *, kind: Kind = JOB) -> bool:
    """Delete the Job (or the object of another kind) of that UID, and none else of its name. False where it is gone already.

    Raises:
        ConflictError: the name has another UID by now.
    """
    try:
        await _delete(api, namespace, name, kind, uid=uid)
    except MissingError:
        return False
    except TakenError:
        raise _changed(kind, name) from None
    return True


async def delete_first(api: KubernetesApi, job: Document) -> bool:
    """Delete a Job that was read. Whether it is this deletion that makes it go: not where it is gone or about to go.

    While a finalizer holds a Job, every deletion of it is answered alike. Of several at once the first is the one that finds it as it
    was read, without a `deletionTimestamp`; its `resourceVersion` says so. A Job whose status changes all the time is deleted by its UID.

    Raises:
        ConflictError: the name has another UID by now.
    """
    metadata = job["metadata"]
    namespace, name, uid = (str(metadata[key]) for key in ("namespace", "name", "uid"))
    for _ in range(_TRIES):
        if metadata.get("deletionTimestamp") is not None:
            await delete_by_uid(api, namespace, name, uid)
            return False
        try:
            await _delete(api, namespace, name, JOB, uid=uid, resourceVersion=str(metadata["resourceVersion"]))
        except MissingError:
            return False
        except TakenError:
            try:
                metadata = (await read_job(api, namespace, name))["metadata"]
            except NotFoundError:
                return False
            if metadata["uid"] != uid:
                raise _changed(JOB, name) from None
        else:
            return True
    return await delete_by_uid(api, namespace, name, uid)


async def _delete(api: KubernetesApi, namespace: str, name: str, kind: Kind, **preconditions: str) -> None:
    """`propagationPolicy` must be said: the API server's default for Jobs leaves their pods behind."""
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": preconditions}
    await api.request("DELETE", kind.path(namespace, name), body=options)


def _changed(kind: Kind, name: str) -> ConflictError:
    return ConflictError(f"{kind.kind} '{name}' changed before its UID-preconditioned delete")

"""What stands beside a Job (Services, ConfigMaps), applied on the server's side and owned by the Job, so that it goes when the Job goes.

An object of the same name that isn't the fleet's is left alone: to apply over it would hand it to the Job, and delete it with the Job.
So the first try is a plain create, which in the ordinary case is also the only request. What another job of the fleet left behind under the
name gives way, but never while that job's own Job has not ended: it may be what its pods run with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.clusters import names
from shared.clusters.api import APPLY, KubernetesApi
from shared.clusters.errors import ApiError, MissingError, TakenError
from shared.clusters.kinds import JOB, supporting_kind
from shared.clusters.observed import condition, owner_of
from shared.clusters.rendering import own
from shared.errors import UnavailableError
from shared.jobs.ports import Observed, RefusedError, StrangerError


async def apply_supporting(api: KubernetesApi, supporting: Sequence[Mapping[str, Any]], owner: Observed) -> None:
    """Apply supporting objects in their order. Idempotent. Raises RefusedError, StrangerError, UnavailableError."""
    for document in own([dict(item) for item in supporting], owner.name, owner.uid):
        await _apply(api, document, owner)


async def _apply(api: KubernetesApi, document: dict[str, Any], owner: Observed) -> None:
    kind = supporting_kind(document)
    name = str(document["metadata"]["name"])
    # One manager for each execution: the server takes away what a manager applied before and doesn't apply again.
    query = {"fieldManager": f"gpufleet-{owner.job_id}-{owner.execution}", "fieldValidation": "Strict"}
    try:
        await api.request("POST", kind.path(owner.namespace), query=query, body=document)
    except TakenError:
        path = kind.path(owner.namespace, name)
        standing = await _ours(api, path)
        if _job_of(standing) == owner.job_id:
            await _patch(api, path, query, document)
            return
        await _clear(api, path, standing)
        await _create(api, kind.path(owner.namespace), query, document)
    except ApiError as error:
        raise RefusedError(str(error)) from error


async def _ours(api: KubernetesApi, path: str) -> dict[str, Any]:
    """The object of this fleet that has the name. Raises StrangerError where it is somebody else's."""
    try:
        found = await api.request("GET", path)
    except MissingError as missing:
        raise UnavailableError(str(missing)) from missing
    except ApiError as error:
        raise RefusedError(str(error)) from error
    metadata = found["metadata"]
    if (metadata.get("labels") or {}).get(names.MANAGED) != "true":
        raise StrangerError(f"{_what(found)} was there before and is not of this fleet; it seems to belong to {owner_of(found)}")
    if metadata.get("deletionTimestamp") is not None:
        raise UnavailableError(f"{_what(found)} of an earlier execution is still being deleted")
    return found


async def _clear(api: KubernetesApi, path: str, found: Mapping[str, Any]) -> None:
    """Delete what another job of the fleet left behind, by its UID, so that of several jobs that find it one comes to have the name.

    Raises StrangerError while a Job that owns it has not ended.
    """
    metadata = found["metadata"]
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("kind") == "Job" and await _lives(api, str(metadata["namespace"]), reference):
            raise StrangerError(
                f"{_what(found)} belongs to job {_job_of(found)}, whose Job {reference['name']} (UID {reference['uid']}) has not ended"
            )
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": metadata["uid"]}}
    try:
        await api.request("DELETE", path, body=options)
    except MissingError:
        return
    except TakenError as taken:
        raise UnavailableError(str(taken)) from taken
    except ApiError as error:
        raise RefusedError(str(error)) from error


async def _lives(api: KubernetesApi, namespace: str, reference: Mapping[str, Any]) -> bool:
    """Whether the Job of an owner reference stands and has not ended. One that is being deleted takes with it what it owns."""
    try:
        job = await api.request("GET", JOB.path(namespace, str(reference["name"])))
    except MissingError:
        return False
    except ApiError as error:
        raise UnavailableError(str(error)) from error
    if job["metadata"]["uid"] != reference["uid"]:
        return False
    if job["metadata"].get("deletionTimestamp") is not None:
        raise UnavailableError(f"Job {namespace}/{reference['name']} is still being deleted, and what it owns with it")
    status = job.get("status") or {}
    return condition(status, "Complete") is None and condition(status, "Failed") is None


async def _create(api: KubernetesApi, path: str, query: Mapping[str, str], document: Mapping[str, Any]) -> None:
    try:
        await api.request("POST", path, query=query, body=document)
    except TakenError as taken:
        raise UnavailableError(str(taken)) from taken
    except ApiError as error:
        raise RefusedError(str(error)) from error


async def _patch(api: KubernetesApi, path: str, query: Mapping[str, str], document: Mapping[str, Any]) -> None:
    try:
        await api.request("PATCH", path, query={**query, "force": "true"}, body=document, content_type=APPLY)
    except TakenError as taken:
        raise UnavailableError(str(taken)) from taken
    except ApiError as error:
        raise RefusedError(str(error)) from error


def _job_of(found: Mapping[str, Any]) -> str | None:
    return (found["metadata"].get("labels") or {}).get(names.JOB_ID)


def _what(found: Mapping[str, Any]) -> str:
    metadata = found["metadata"]
    return f"{found.get('kind')} {metadata.get('namespace')}/{metadata['name']} (UID {metadata['uid']})"

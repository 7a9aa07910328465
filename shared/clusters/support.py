"""What stands beside a Job (Services, ConfigMaps), applied on the server's side and owned by the Job, so that it goes when the Job goes.

An object of the same name that isn't the fleet's is left alone: to apply over it would hand it to the Job, and delete it with the Job.
So the first try is a plain create, which in the ordinary case is also the only request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.clusters import names
from shared.clusters.api import APPLY, KubernetesApi
from shared.clusters.errors import ApiError, MissingError, TakenError
from shared.clusters.kinds import supporting_kind
from shared.clusters.observed import owner_of
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
        await _check_ours(api, path)
        await _patch(api, path, query, document)
    except ApiError as error:
        raise RefusedError(str(error)) from error


async def _check_ours(api: KubernetesApi, path: str) -> None:
    """Whether what has the name may be applied over."""
    try:
        found = await api.request("GET", path)
    except MissingError as missing:
        raise UnavailableError(str(missing)) from missing
    except ApiError as error:
        raise RefusedError(str(error)) from error
    metadata = found["metadata"]
    what = f"{found.get('kind')} {metadata.get('namespace')}/{metadata['name']} (UID {metadata['uid']})"
    if (metadata.get("labels") or {}).get(names.MANAGED) != "true":
        raise StrangerError(f"{what} was there before and is not of this fleet; it seems to belong to {owner_of(found)}")
    if metadata.get("deletionTimestamp") is not None:
        raise UnavailableError(f"{what} of an earlier execution is still being deleted")


async def _patch(api: KubernetesApi, path: str, query: Mapping[str, str], document: Mapping[str, Any]) -> None:
    try:
        await api.request("PATCH", path, query={**query, "force": "true"}, body=document, content_type=APPLY)
    except TakenError as taken:
        raise UnavailableError(str(taken)) from taken
    except ApiError as error:
        raise RefusedError(str(error)) from error

"""One object of any kind that may be applied: read as it stands, and deleted by the UID that was looked at."""

from __future__ import annotations

from typing import Any

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import MissingError, TakenError
from shared.clusters.kinds import Kind
from shared.errors import ConflictError, NotFoundError


async def read_resource(api: KubernetesApi, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
    """The object's document. Raises NotFoundError."""
    try:
        return await api.request("GET", kind.path(namespace, name))
    except MissingError:
        raise NotFoundError(kind.kind, name) from None


async def delete_by_uid(api: KubernetesApi, kind: Kind, namespace: str, name: str, uid: str) -> None:
    """Delete the object of that UID, and in the background what belongs to it; that it is gone already is as good.

    Raises:
        ConflictError: the name has another UID by now.
    """
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": uid}}
    try:
        await api.request("DELETE", kind.path(namespace, name), body=options)
    except MissingError:
        return
    except TakenError:
        raise ConflictError(f"{kind.kind} '{name}' changed before its UID-preconditioned delete") from None


def without_bookkeeping(document: dict[str, Any]) -> dict[str, Any]:
    """An object's metadata as its users read it: without `managedFields`, which are often longer than all the rest."""
    return {key: value for key, value in document["metadata"].items() if key != "managedFields"}

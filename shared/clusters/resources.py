"""One object of any kind that may be applied, as it stands."""

from __future__ import annotations

from typing import Any

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import MissingError
from shared.clusters.kinds import Kind
from shared.errors import NotFoundError


async def read_resource(api: KubernetesApi, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
    """The object's document. Raises NotFoundError."""
    try:
        return await api.request("GET", kind.path(namespace, name))
    except MissingError:
        raise NotFoundError(kind.kind, name) from None


def without_bookkeeping(document: dict[str, Any]) -> dict[str, Any]:
    """An object's metadata as its users read it: without `managedFields`, which are often longer than all the rest."""
    return {key: value for key, value in document["metadata"].items() if key != "managedFields"}
